"""The version of the package, in the one place that the build reads too."""

__version__ = "0.2.0.dev0"
