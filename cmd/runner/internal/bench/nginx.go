package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startNginx starts nginx before the backend at address, with as many workers as cores. It
// keeps its connections and buffers no answer, as the others do.
func startNginx(ctx context.Context, binary, dir, address string) (*process, error) {
	own, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &process{calls: own, parent: true}
	dir = filepath.Join(dir, "nginx")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a directory for nginx: %w", err)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, p.calls, address), 0o600); err != nil {
		return nil, fmt.Errorf("configuring nginx: %w", err)
	}
	p.command = exec.CommandContext(ctx, binary, "-p", dir, "-c", file, "-e", "stderr", "-g", "daemon off;")
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.Env = []string{} // NGINX has a meaning of its own there
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting nginx: %w", err)
	}
	if err := p.awaitListening(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("starting nginx: %w", err)
	}
	return p, nil
}

// nginxConfig has the addresses of nginx and of the backend. Its temporary files are
// below the directory that it is started in.
const nginxConfig = `worker_processes auto;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	client_max_body_size 4m;
	client_body_buffer_size 64k;
	keepalive_requests 1000000000;
	upstream backend { server %[2]s; keepalive 256; keepalive_requests 1000000000; }
	server {
		listen %[1]s;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_read_timeout 1h;
		}
	}
}
`
