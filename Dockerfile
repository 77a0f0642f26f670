# normbench in a container, with the published results and without data.
#
#   docker build -t normbench .
#   docker run --rm -t normbench reproduce ln2016/fig6 --max-time 0            # the published result
#
# Your own runs: two folders of yours, and your user id, so that what is written there is yours and not another user's.
# Make the folders first, or the engine makes them as root.
#
#   mkdir -p data results
#   alias nb='docker run --rm -it --user "$(id -u):$(id -g)" -v "$PWD/data:/data" -v "$PWD/results:/results" normbench'
#   nb data get mnist
#   nb reproduce ln2016/fig6 --seeds 1 --only ln                               # Ctrl-C, and the same command goes on
#
# The published results are the image's /results. A named volume (-v NAME:/results) begins with a copy of them; a folder
# of the host hides them and is used as it is, so an empty one begins from nothing. To begin with the published ones,
# mount the `results` of a checkout, or fill the folder:
#
#   docker run --rm --entrypoint tar normbench -C /results -c . | tar -x -C results
#
# Relative paths start at /workspace: -v "$PWD/my_conf:/workspace/my_conf" and `train --config-dir my_conf`.
# Caches lie in /tmp: `--read-only --tmpfs /tmp` works.
#
# Build arguments
#   BASE         an image with Python 3.11 or later, venv and glibc
#   TORCH_INDEX  where torch comes from: the CPU build by default. CUDA (run with `--gpus all`):
#                --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128
#                Empty (--build-arg TORCH_INDEX=): the index that pip uses for everything else.
#   REVISION     the commit, for the label: --build-arg REVISION="$(git rev-parse HEAD)"
# A mirror instead of PyPI: --secret id=pip,src=pip.conf (nothing of it stays in the image).
# Docker 23 or later, Podman 4 or later. scripts/container/check.sh builds the image and uses it.

ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# normbench[all], with torch apart from the rest: it is large, has its own index, and its layer stays while the others change
COPY pyproject.toml ./
RUN python3 -c 'import tomllib; \
    project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
    extras = [project["optional-dependencies"][name] for name in ("train", "wandb")]; \
    needs = sum(extras, project["dependencies"]); \
    torch = [need for need in needs if need.startswith("torch")]; \
    print(*torch, sep="\n", file=open("torch.txt", "w")); \
    print(*[need for need in needs if need not in torch], sep="\n", file=open("others.txt", "w"))'
COPY README.md LICENSE ./
COPY conf conf
COPY normbench normbench
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python3 -m venv /venv && /venv/bin/pip wheel --no-cache-dir --no-deps --wheel-dir dist .
# writable for whichever user the container runs as (--user)
COPY results /results
RUN chmod -R a+rwX /results

FROM ${BASE}
# a virtual environment, because Debian's own Python refuses packages outside of one
ENV PATH=/opt/normbench/bin:$PATH
COPY --from=build /src/torch.txt /opt/normbench/
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python3 -m venv /opt/normbench \
    && pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -r /opt/normbench/torch.txt
COPY --from=build /src/others.txt /opt/normbench/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    pip install --no-cache-dir -r /opt/normbench/others.txt
COPY --from=build /src/dist /opt/normbench/dist
# 1000 is the first user of most machines; the folders are for any
RUN pip install --no-cache-dir --no-deps /opt/normbench/dist/*.whl \
    && pip check \
    && useradd --uid 1000 --non-unique --no-create-home --home-dir /tmp normbench \
    && install -d -m 0777 /data /results /workspace
COPY --from=build /results /results

# HOME: matplotlib, torch and normbench keep caches below it, and an id given with --user has no home of its own
# USER: such an id has no name either, and torch asks for one
# OMP_NUM_THREADS: a run uses one thread, because two add numbers up in another order
ENV NORMBENCH_DATA=/data \
    NORMBENCH_RESULTS=/results \
    HOME=/tmp \
    USER=normbench \
    OMP_NUM_THREADS=1 \
    PYTHONUNBUFFERED=1
VOLUME ["/data", "/results"]
WORKDIR /workspace
USER 1000:1000

ARG REVISION=
LABEL org.opencontainers.image.title="normbench" \
      org.opencontainers.image.description="Reproduces the experiments of Layer Normalization (2016), Recurrent Batch Normalization (2016) and Batch Layer Normalization (2022), for any normalizer" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}"
ENTRYPOINT ["normbench"]
CMD ["--help"]
