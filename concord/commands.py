"""What a command of another package is made of. A package registers it by an entry point, see ``docs/extending.md``.

    from concord.commands import CommandTree

The name is public and stays. It has a module of its own since workers import `concord.parts`, and no command line.
"""

from __future__ import annotations

from concord.flows.cli.tree import CommandTree

__all__ = ["CommandTree"]
