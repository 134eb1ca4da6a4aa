"""Addresses of the explorer. Every module here has a `router`; a new one needs no entry elsewhere."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    modules = (import_module(f".{module.name}", __name__) for module in iter_modules(__path__))
    return [module.router for module in modules]
