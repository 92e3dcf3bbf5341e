# The operator is one static binary, so its image needs no base image and nothing has to be pulled to build it.
# `make docker-build` puts the binary where this file looks for it.
FROM scratch
COPY target/image/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
