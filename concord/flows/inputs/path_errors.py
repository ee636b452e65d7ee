"""What to do about a path that the system refuses, for users of the command line and of Python."""

from __future__ import annotations

import errno
import os

PATH_ERRORS = {
    errno.ENOENT: "give a path that is there",
    errno.ENOTDIR: "a file stands where a folder should be; give another path",
    errno.EISDIR: "give a file",
    errno.EEXIST: "give another path",
    errno.ENOTEMPTY: "give another path",
    errno.EBUSY: "give another path",
    errno.EACCES: "give a path that you may use",
    errno.EPERM: "give a path that you may use",
    errno.EROFS: "give a path that can be written",
    errno.ENOSPC: "free some space or give another path",
    errno.EDQUOT: "free some space or give another path",
    errno.EFBIG: "raise the limit of file sizes or give another path",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "its links lead in a circle; give another path",
    errno.EIO: "the disk may be failing; copy what is there, or give another path",
}
"""What to do about a path that the system refuses, by the number of its error."""


def path_fault(error: OSError) -> str:
    """The error in one line: path, reason, and what to do. Its number must be in `PATH_ERRORS`."""
    assert error.errno is not None
    place = str(error) if error.filename is None else f"{error.filename}: {os.strerror(error.errno)}"
    return f"{place}; {PATH_ERRORS[error.errno]}"
