// Package authority reads trusted certificates.
package authority

import (
	"crypto/x509"
	"fmt"
	"os"
)

// Read returns the certificate authorities in a PEM file.
func Read(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: expected certificates in PEM, found none", path)
	}
	return roots, nil
}
