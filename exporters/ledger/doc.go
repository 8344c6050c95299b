// Package ledger writes a Request as one JSON line: the one form in which the ledger,
// the look-up, replay and tests see a request.
//
// The line's fields are specified in request-line.schema.json, which is part of the
// package (Schema). Keys come in a fixed order, numbers in the shortest form that reads
// back to the same number, so that the same Request gives the same bytes. A value that
// was not observed is null; `incomplete` says why.
package ledger
