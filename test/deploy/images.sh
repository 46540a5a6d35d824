#!/usr/bin/env bash
# Builds the image of the gateway from the Dockerfile as it is, and what docker-compose.yml needs beside it, in a store of
# its own. It asks no image registry and no daemon: base images are made from Debian's and npm's packages, and get
# the names that the Dockerfile and docker-compose.yml ask for.
#
#   test/deploy/images.sh FOLDER PROJECT
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
project=$2
# Test files that need the images run at the same time.
exec 9>"$folder/lock"
flock 9

# For hosts without an overlay file system, without CAP_SYS_RESOURCE, and with cgroups of either version.
cat > "$folder/containers.conf" <<'END'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
END
cat > "$folder/storage.conf" <<END
[storage]
driver = "vfs"
graphroot = "$folder/store"
runroot = "$folder/run"
END
export CONTAINERS_CONF="$folder/containers.conf" CONTAINERS_STORAGE_CONF="$folder/storage.conf" BUILDAH_ISOLATION=chroot
build() { buildah bud -q --pull=never --network host "$@" >/dev/null; }
has() { buildah inspect --type image "$1" >/dev/null 2>&1; }

if ! has localhost/stand-in; then
  [ -f "$folder/base.tar" ] || mmdebstrap --variant=minbase \
    --include=ca-certificates,libstdc++6,redis-server,nginx-light,wget,netcat-openbsd bookworm "$folder/base.tar" 2>"$folder/mmdebstrap.log"
  podman import -q "$folder/base.tar" localhost/stand-in >/dev/null
  rm "$folder/base.tar"
fi

if ! has docker.io/library/node:24-alpine; then
  mkdir -p "$folder/node"
  everything=$(node -p "require('$project/package-lock.json').packages['node_modules/@modelcontextprotocol/server-everything'].version")
  (cd "$folder/node" && npm init -y && npm install --no-audit --no-fund --ignore-scripts=false node@24 npm@11) >"$folder/npm.log" 2>&1
  cp -L "${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}" "$folder/node/ca.crt"
  build -t docker.io/library/node:24-bookworm-slim -f - "$folder/node" <<'END'
FROM localhost/stand-in
COPY node_modules/node/bin/node /usr/local/bin/node
COPY node_modules/npm /usr/local/lib/node_modules/npm
COPY ca.crt /etc/ssl/certs/ca-certificates.crt
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
 && groupadd -g 1000 node && useradd -u 1000 -g node -m node
END
  # npx finds the server there, and downloads nothing.
  build -t docker.io/library/node:24-alpine -f - "$folder/node" <<END
FROM docker.io/library/node:24-bookworm-slim
RUN npm install --global --no-audit --no-fund @modelcontextprotocol/server-everything@$everything && chown -R 1000:1000 /home/node
END
fi

# As the official image does: without a password, Redis refuses other hosts otherwise.
has docker.io/library/redis:7-alpine || build -t docker.io/library/redis:7-alpine -f - "$folder/node" <<'END'
FROM localhost/stand-in
ENTRYPOINT ["sh", "-c", "exec \"$@\" --protected-mode no", "-"]
END
has docker.io/library/nginx:1.28-alpine || build -t docker.io/library/nginx:1.28-alpine -f - "$folder/node" <<'END'
FROM localhost/stand-in
CMD ["nginx", "-g", "daemon off;"]
END

# A server that listens on loopback only, as beside the gateway.
has localhost/legacy:1 || build -t localhost/legacy:1 -f - "$folder/node" <<'END'
FROM docker.io/library/node:24-alpine
RUN echo "const { Server } = require('node:net'); const { listen } = Server.prototype; Server.prototype.listen = function (port, ...rest) { return listen.call(this, port, process.env.HOST, ...rest.slice(-1)); };" > /loopback.cjs
USER 1000:1000
ENTRYPOINT ["node", "--require", "/loopback.cjs", "/usr/local/lib/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"]
END

# What the Dockerfile reads. The format of Docker keeps the health check.
revision=$(cd "$project" && find Dockerfile package.json package-lock.json scripts/bundle.ts bin config src -type f | sort | xargs sha256sum | sha256sum | cut -c1-40)
if [ "$(buildah inspect --type image --format '{{index .OCIv1.Config.Labels "org.opencontainers.image.revision"}}' localhost/mrtr-gateway:test 2>/dev/null)" != "$revision" ]; then
  build --format docker --build-arg VERSION=test --build-arg "REVISION=$revision" -t localhost/mrtr-gateway:test "$project"
  buildah tag localhost/mrtr-gateway:test localhost/mrtr-gateway:latest
fi
