"""``python -m pycomm`` is the pycomm command."""

import sys

from pycomm.cli import main

sys.exit(main())
