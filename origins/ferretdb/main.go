// Command ferretdb is the MongoDB-compatible origin of the tests: FerretDB embedded, on SQLite.
//
// FerretDB's own command cannot be built from its module: it panics at start because a generated
// file is missing. Its embedded package does not start the telemetry reporter.
//
// When it listens, it prints "listening on HOST:PORT" to standard output; with port 0 the kernel
// chooses a free port. It stops on SIGTERM or SIGINT.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "TCP address to listen on")
	dir := flag.String("dir", "", "existing directory for the SQLite files (required)")
	flag.Parse()
	if err := run(*listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

// errorsOnly omits warnings: FerretDB logs one for each error that it returns to a client.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func run(listen, dir string) error {
	if dir == "" {
		return fmt.Errorf("expected --dir with an existing directory for the SQLite files")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: listen},
		Logger:    errorsOnly(),
		Handler:   "sqlite",
		SQLiteURL: "file:" + absolute + "/",
	})
	if err != nil {
		return err
	}
	// New has already bound the port: the address is known, and connections wait until Run accepts.
	address := strings.TrimSuffix(strings.TrimPrefix(server.MongoDBURI(), "mongodb://"), "/")
	fmt.Println("listening on", address)
	return server.Run(ctx)
}
