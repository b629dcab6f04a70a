module enroute/checker

go 1.23

require github.com/anishathalye/porcupine v1.0.0
