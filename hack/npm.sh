#!/usr/bin/env bash
# Installs packages of npm as a lock file pins them: npm.sh SOURCE WORK [flag of npm ci…]. SOURCE has package.json and package-lock.json, and
# is copied to WORK; what is installed there already stays while the lock file does. npm itself comes from the distribution where it is missing.
set -euo pipefail

source=$1 work=$2
shift 2
if ! command -v npm >/dev/null; then
	echo "npm.sh: installing npm from the distribution"
	apt-get update -qq
	apt-get install -y -qq npm >/dev/null
fi
mkdir -p "$work"
cp "$source"/* "$work/"
cmp -s "$work/package-lock.json" "$work/installed" || npm --prefix "$work" ci --no-audit --no-fund --loglevel error "$@"
cp "$work/package-lock.json" "$work/installed"
