// Command ferretdb is the MongoDB-compatible origin of the tests: FerretDB embedded, on SQLite.
//
// FerretDB's own command cannot be built as a module (it panics at start for want of a generated
// file), and its embedded package never creates the telemetry reporter. So the program is ours.
//
// Once it listens it prints "listening on HOST:PORT" to standard output; port 0 asks the kernel for
// a free one. It stops on SIGTERM or SIGINT.
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
	dir := flag.String("dir", "", "directory of the SQLite files (required, must exist)")
	flag.Parse()
	if err := run(*listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

// errorsOnly leaves out the warnings: there is one for every error a client is answered with.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func run(listen, dir string) error {
	if dir == "" {
		return fmt.Errorf("give --dir, an existing directory for the SQLite files")
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
	// New has bound the port already, so the address is known and clients queue until Run accepts.
	address := strings.TrimSuffix(strings.TrimPrefix(server.MongoDBURI(), "mongodb://"), "/")
	fmt.Println("listening on", address)
	return server.Run(ctx)
}
