/** nginx as a pass-through, where it is installed: one process, everything it writes in a folder of ours. */
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../processes/child.ts';
import { freePort } from '../../test/fixtures/processes.ts';
import { answers } from '../processes/listening.ts';

export interface NginxProcess {
  readonly child: Child;
  readonly origin: string;
}

/** Such as `nginx/1.22.1`; `null` when there is no nginx on the PATH. */
export function nginxVersion(): string | null {
  const { stderr, error } = spawnSync('nginx', ['-v'], { encoding: 'utf8' });
  return error === undefined ? (/nginx\/\S+/.exec(stderr)?.[0] ?? 'nginx') : null;
}

/** Starts nginx in front of the upstream; resolves when it answers. */
export async function startNginx(upstream: string, folder: string): Promise<NginxProcess> {
  const port = await freePort();
  const home = join(folder, 'nginx');
  await mkdir(home);
  const file = join(home, 'nginx.conf');
  await writeFile(file, configuration(port, new URL(upstream).host, home));
  const child = Child.program('nginx', 'nginx', ['-p', home, '-e', 'stderr', '-c', file]);
  const origin = `http://127.0.0.1:${port}`;
  await answers(`${origin}/nginx-is-up`, child);
  return { child, origin };
}

/** Connections are kept to both sides, and events pass at once, as MCP needs it. */
function configuration(port: number, upstreamHost: string, home: string): string {
  const scratch = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${join(home, kind)};`)
    .join('\n  ');
  return `daemon off;
master_process off;
worker_processes 1;
pid ${join(home, 'nginx.pid')};
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  ${scratch}
  keepalive_requests 100000000;
  upstream legacy {
    server ${upstreamHost};
    keepalive 64;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:${port};
    location = /nginx-is-up { return 200; }
    location / {
      proxy_pass http://legacy;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`;
}
