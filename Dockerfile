# Operator and flasher are one static binary each, so their images need no base image and nothing has to be pulled to
# build them. `make docker-build` puts what they hold where this file looks for it.

# The flasher also has the CAs of public registries, and a /tmp for those who run it outside a flash Pod.
FROM scratch AS flasher
COPY target/image/flasher/ /
USER 65532:65532
ENTRYPOINT ["/flashjob-flasher"]

# The last one is what a build without --target makes.
FROM scratch AS operator
COPY target/image/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
