"""From planned runs to worker processes. The parent never imports torch."""
