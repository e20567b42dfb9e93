# SPDX-License-Identifier: Apache-2.0
"""Adapters that record forward passes of other runtimes under the canonical names of a trace."""
