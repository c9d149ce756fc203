"""The pages, and the scripts that lay out the site, which are in no package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs" / "site"))
