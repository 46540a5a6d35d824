# The gateway in a container: sources, production dependencies, a user without rights.
#   docker build -t mrtr-gateway .
#   docker run --rm -p 8080:8080 mrtr-gateway --upstream http://legacy:3001/mcp --listen :8080

FROM node:24-alpine AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# None of the production dependencies needs an install script.
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force

FROM node:24-alpine
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY bin ./bin
COPY config ./config
# Node.js runs TypeScript as it is: there is no build step.
COPY src ./src

USER node

# The public port, and the admin port where the configuration opens it beyond loopback ("admin: :9090").
EXPOSE 8080 9090

# For Docker and Compose; Kubernetes has probes of its own. Works with any admin address on port 9090.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --start-interval=1s \
  CMD wget -q -O /dev/null http://127.0.0.1:9090/readyz || exit 1

ENTRYPOINT ["node", "bin/mrtr-gateway.js"]
CMD ["--help"]
