"""Temporary folders of checks, removed with the process that created them."""
import os
import re
import shutil
import tempfile


def fresh_folder(prefix):
    """The path of a new folder with this process's number in its name. Folders of killed processes are removed first."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        owner = re.fullmatch(re.escape(prefix) + r"(\d+)-\w{8}", name)
        if owner and not os.path.exists(f"/proc/{owner[1]}"):
            # Another user's folder cannot be removed, and stays.
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")
