// Command mongodb uses the Go driver of MongoDB:
// `go run ./mongodb "mongodb://HOST:PORT/?tls=true" CA_FILE`.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"slices"

	"enroute/examples/authority"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var user = bson.D{{Key: "_id", Value: "go"}}

func main() {
	url, ca := os.Args[1], os.Args[2]
	roots, err := authority.Read(ca)
	check(err)
	settings := options.Client().ApplyURI(url).SetTLSConfig(&tls.Config{RootCAs: roots})
	client, err := mongo.Connect(settings)
	check(err)
	defer client.Disconnect(context.Background())
	users := client.Database("shop").Collection("users")

	write(users, "Ada")
	reads := []string{read(users), read(users)} // The second is a hit.
	write(users, "Grace")
	reads = append(reads, read(users))

	fmt.Println("read twice, then after a write:", reads)
	if !slices.Equal(reads, []string{"Ada", "Ada", "Grace"}) {
		os.Exit(1)
	}
}

func write(users *mongo.Collection, name string) {
	change := bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: name}}}}
	_, err := users.UpdateOne(context.Background(), user, change, options.UpdateOne().SetUpsert(true))
	check(err)
}

func read(users *mongo.Collection) string {
	var found struct{ Name string }
	check(users.FindOne(context.Background(), user).Decode(&found))
	return found.Name
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
