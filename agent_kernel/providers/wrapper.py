"""Wrapper: what every provider around another one hands through unchanged.

May not touch a stream: each wrapper writes that itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.core.model import Endpoint, ModelInfo, Provider, Request


@dataclass
class Wrapper:
    """A provider around `inner`; a subclass adds `stream`."""

    inner: Provider

    @property
    def endpoint(self) -> Endpoint:
        """The inner provider's endpoint."""
        return self.inner.endpoint

    @property
    def name(self) -> str:
        """The inner provider's name."""
        return self.inner.name

    async def count(self, request: Request) -> int | None:
        """Return what the inner provider counts."""
        return await self.inner.count(request)

    async def models(self) -> list[ModelInfo]:
        """Return the inner provider's models."""
        return await self.inner.models()

    async def close(self) -> None:
        """Close the inner provider's connections, where it has any."""
        close = getattr(self.inner, "close", None)
        if close is not None:
            await close()
