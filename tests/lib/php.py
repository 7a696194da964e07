"""php-fpm as a process of its own, with a pool in a folder: `with Fpm(folder, {"a.php": "<?php ..."}) as fpm: ...fpm.address...`"""
import os
import signal
import subprocess

from lib.needs import installed_as
from lib.program import free_port, wait_until

# Debian puts the version into the name.
PROGRAMS = "/usr/sbin/php-fpm*"
POOL = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
listen = {listen}
listen.mode = 0666
{user}
pm = static
pm.max_children = {children}
ping.path = /ping
pm.status_path = /status
catch_workers_output = yes
decorate_workers_output = no
php_admin_value[post_max_size] = 4G
php_admin_value[upload_max_filesize] = 4G
php_admin_value[memory_limit] = 64M
php_admin_value[upload_tmp_dir] = {folder}/tmp
php_admin_value[sys_temp_dir] = {folder}/tmp
php_admin_value[session.save_path] = {folder}/tmp
php_admin_flag[display_errors] = off
php_admin_flag[log_errors] = on
{pool}
"""


class Fpm:
    """php-fpm on a UNIX socket, or on a TCP port with `tcp`. `pages` are the files of its document root, `pool` more lines of its
    configuration, `text` another configuration with the same places. Its `address` and `cut` are those of an application of the tests ([`lib.fcgi_world.World`])."""

    def __init__(self, folder, pages=(), tcp=False, children=4, pool="", text=POOL):
        self.folder, self.process, self.root = folder, None, os.path.join(folder.path, "www")
        os.makedirs(os.path.join(folder.path, "tmp"), exist_ok=True)
        os.chmod(os.path.join(folder.path, "tmp"), 0o777)
        os.makedirs(self.root, exist_ok=True)
        self.pages(dict(pages))
        self.port = free_port() if tcp else 0
        self.listen = f"127.0.0.1:{self.port}" if tcp else f"{folder.path}/fpm.sock"
        self.address = self.listen if tcp else f"unix@{self.listen}"
        user = "user = nobody\ngroup = nogroup" if os.geteuid() == 0 else ""
        self.configuration = folder.file("fpm.conf", text.format(folder=folder.path, listen=self.listen, user=user, children=children, pool=pool))
        self.command = [installed_as(PROGRAMS, "php-fpm"), "-n", "-d", "extension=posix", "-F", "-y", self.configuration]
        self.start()

    def pages(self, pages):
        """Writes files below the document root."""
        for name, text in pages.items():
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)

    def start(self):
        """Starts php-fpm, and waits until it is ready."""
        before = self.log().count("ready to handle connections")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_until(lambda: self.log().count("ready to handle connections") > before or self.process.poll() is not None, 10)
        assert self.process.poll() is None, self.log()

    def log(self):
        """The text of the error log."""
        path = os.path.join(self.folder.path, "fpm.log")
        return open(path).read() if os.path.exists(path) else ""

    def stop(self, number=signal.SIGTERM):
        """Stops php-fpm: SIGTERM at once, SIGQUIT after the requests that it has begun."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def restart(self, number=signal.SIGTERM):
        """Stops php-fpm, and starts it again at the same place."""
        self.stop(number)
        self.start()

    def workers(self):
        """The process IDs of the workers."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            return [int(pid) for pid in children.read().split()]

    def cut(self):
        self.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
