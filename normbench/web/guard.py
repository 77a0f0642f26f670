"""Who may ask the dashboard: the user's browser alone.

Other users of the machine can reach the port, and any page in a browser can send requests to it. So every request
needs the cookie that the printed link sets, a host name of this machine, and no other site as its origin. What writes
something needs this very page as its origin.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlencode

from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

HOSTS = ["localhost", "127.0.0.1", "[::1]"]
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def cookie_name(token: str) -> str:
    """Unique to this server: a browser sends cookies to every port of a host."""
    return f"normbench-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def guard(token: str) -> list[Middleware]:
    """Admits requests of the user's browser alone; sets the headers of all responses."""
    cookie = cookie_name(token)

    def knows(given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())

    def refusal(request: Request) -> Response | None:
        """The response to a request that is not admitted, or that has the token in its address."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Requests from other sites are not answered.\n", 403)
        origin = f"{request.url.scheme}://{request.headers['host']}"
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") != origin:
            return PlainTextResponse("Only the dashboard's own pages change something.\n", 403)
        admitted, given = knows(request.cookies.get(cookie, "")), request.query_params.getlist("token")
        if given and (admitted or (len(given) == 1 and knows(given[0]))):
            others = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
            answer = RedirectResponse(f"/?{urlencode(others)}" if others else "/", 303)
            answer.set_cookie(cookie, token, httponly=True, samesite="strict")
            return answer
        return None if admitted else PlainTextResponse("Open the link that normbench dashboard printed.\n", 403)

    async def dispatch(request: Request, then: RequestResponseEndpoint) -> Response:
        answer = refusal(request) or await then(request)
        answer.headers.update(HEADERS)
        answer.headers.setdefault("Content-Security-Policy", PAGE_POLICY)
        # scripts are asked for again too, but not sent again where they have not changed
        answer.headers["Cache-Control"] = "no-cache" if request.url.path.startswith("/static/") else "no-store"
        return answer

    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)
    return [hosts, Middleware(BaseHTTPMiddleware, dispatch=dispatch)]
