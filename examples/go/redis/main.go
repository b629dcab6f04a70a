// Command redis uses go-redis: `go run ./redis rediss://HOST:PORT CA_FILE`.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	"enroute/examples/authority"

	"github.com/redis/go-redis/v9"
)

const key = "example:go-redis"

func main() {
	url, ca := os.Args[1], os.Args[2]
	options, err := redis.ParseURL(url)
	check(err)
	options.TLSConfig.RootCAs, err = authority.Read(ca)
	check(err)
	client := redis.NewClient(options)
	defer client.Close()

	check(client.Set(context.Background(), key, "Ada", 0).Err())
	reads := []string{read(client), read(client)} // The second is a hit.
	check(client.Set(context.Background(), key, "Grace", 0).Err())
	reads = append(reads, read(client))

	fmt.Println("read twice, then after a write:", reads)
	if !slices.Equal(reads, []string{"Ada", "Ada", "Grace"}) {
		os.Exit(1)
	}
}

func read(client *redis.Client) string {
	value, err := client.Get(context.Background(), key).Result()
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
