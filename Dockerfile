# The command quorumlock alone. It reaches servers over the network, and needs no files:
#
#	docker build --build-arg VERSION=v1.2.3 -t quorumlock .
#	docker run --rm -e QUORUMLOCK_NODES=redis-a:6379,redis-b:6379,redis-c:6379 quorumlock status nightly
#
# `run` finds no command in here: copy the binary into an image that has one.
FROM golang:1.26 AS build
ENV GOWORK=off
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /quorumlock ./cmd/quorumlock

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /quorumlock /usr/local/bin/quorumlock
USER 65532:65532
ENV PATH=/usr/local/bin
ENTRYPOINT ["quorumlock"]
