# SPDX-License-Identifier: Apache-2.0
"""`python -m locant`."""

import sys

from locant.console import main

sys.exit(main())
