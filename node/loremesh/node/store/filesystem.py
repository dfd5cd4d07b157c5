"""Which file systems a home must not lie on, and how to find out."""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

SHARED = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "smb2", "smb3", "smbfs", "webdav"),
        *("9p", "prl_fs", "vboxsf", "virtiofs", "vmhgfs", "vmhgfs-fuse"),  # a host's folder in its guest
        *("davfs2", "gcsfuse", "rclone", "s3fs", "sshfs"),  # through FUSE
    )
)
"""File systems that several machines write: neither locks nor a write-ahead log can be relied on there."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


def filesystem_of(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds `path` (absolute), by the text of `/proc/self/mountinfo`.

    '' when the text does not say. The last of several mounts on one point counts: it covers the others.
    """
    found, depth = "", -1
    for line in mountinfo.splitlines():
        fields, separator, after = line.partition(" - ")
        columns = fields.split(" ")
        if not separator or len(columns) < 5:
            continue
        point = Path(_ESCAPED.sub(lambda octal: chr(int(octal.group(1), 8)), columns[4]))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = after.split(" ")[0], len(point.parts)
    return found


def shared_filesystem(home: Path, mounts: Path = MOUNTS) -> str:
    """The type of the shared file system that `home` lies on, '' when it lies on none or nothing says so."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""  # not Linux: nothing to ask
    kind = filesystem_of(home.resolve(), text)
    return kind if kind.removeprefix("fuse.") in SHARED else ""
