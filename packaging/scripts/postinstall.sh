#!/bin/sh
# Creates the user of the services. Starts no service, because it must be configured first.
set -e
if ! getent passwd enroute >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/enroute --shell /usr/sbin/nologin enroute
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
