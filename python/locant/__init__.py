# SPDX-License-Identifier: Apache-2.0
"""Locant in Python: recording what a model of another library does, as a trace that `locant check` reads."""
