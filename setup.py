"""Entry for tools that still call setup.py; pyproject.toml holds the configuration."""

from scikit_build_core.setuptools.wrapper import setup

setup(cmake_source_dir=".")
