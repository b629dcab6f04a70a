#!/bin/sh
# Stops the services when the package is removed, but not when it is upgraded.
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl --no-reload disable --now 'enroute-*.socket' 'enroute-*.service' || true
    fi
    ;;
esac
