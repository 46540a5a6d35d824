# The gateway in a container: one bundle of the program and what it depends on, a user without rights.
#
#   docker build -t mrtr-gateway .
#   docker run --rm -p 127.0.0.1:8080:8080 mrtr-gateway --upstream http://legacy:3001/mcp
#
# It uses nothing that buildah 1.28 and podman 4.3 of Debian 12 do not know.

FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Nothing that is compiled or shipped needs an install script, or the servers of tests.
RUN npm ci --ignore-scripts --workspaces=false
COPY bin ./bin
COPY scripts/bundle.ts ./scripts/bundle.ts
COPY src ./src
RUN node scripts/bundle.ts /program

FROM node:24-bookworm-slim
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="mrtr-gateway" \
      org.opencontainers.image.description="Reverse proxy that lets modern MCP clients use legacy MCP servers that ask in the middle of a call" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/node:24-bookworm-slim"

ENV NODE_ENV=production
# The threads of V8 share two heaps of malloc. With one for each thread, some megabytes of each are never given back.
ENV MALLOC_ARENA_MAX=2
# Loopback inside a container can be reached by nobody. Flags, MRTR_GATEWAY_LISTEN and a file's "listen" win over this.
ENV MRTR_GATEWAY_LISTEN_DEFAULT=:8080

WORKDIR /app
COPY --from=build /program ./
COPY LICENSE ./
COPY config ./config

# Fills the compile cache by starting the gateway once and stopping it. Node.js keys the cache by user id, so this
# runs as the user of the image; with another one the gateway starts without the cache, and slower. Nothing is left
# that this user can write.
RUN mkdir .compile-cache && chown node:node .compile-cache
USER node
RUN timeout --preserve-status 10 node bin/mrtr-gateway.js --upstream http://127.0.0.1:9/mcp --log-level warn
USER root
RUN chown -R root:root .compile-cache && chmod -R a=rX .compile-cache && test -n "$(ls .compile-cache/*)"
USER 1000:1000

# For clients, and for the operator (where the configuration opens it beyond loopback: "admin: :9464").
EXPOSE 8080 9464

# For Docker and Compose; Kubernetes has probes of its own. It expects the admin listener on port 9464:
# with "admin: off" or another port, start the container with --no-healthcheck or a check of your own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "require('node:http').get('http://127.0.0.1:9464/readyz', (response) => process.exit(response.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "bin/mrtr-gateway.js"]
CMD ["--help"]
