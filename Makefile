# The front door: `make help` lists what there is, plain `make` builds.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory --no-builtin-rules

# The images of operator and flasher, and the programs that build them and talk to the cluster.
IMG ?= controller:latest
FLASHER_IMG ?= flasher:latest
CONTAINER_TOOL ?= docker
KUBECTL ?= kubectl
# How long uninstall and undeploy wait for FlashJobs to go.
TIMEOUT ?= 120s
# The name comes from the original's Makefile; to delete what is not there is no error unless you say so.
ignore-not-found ?= true
# What docker-build compiles for. Set it to a Linux target you have a linker for to build for other machines.
TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')

CRD := config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml
EDGE_KINDS := edgedevices edgedeployments edgeworkloads edgedevicegroups edgedevicesets edgedevicesignedrequest
EDGE_CRDS := $(EDGE_KINDS:%=config/crd/bases/management.project-flotta.io_%.yaml)
# Where cargo puts programs. They are run from there: `cargo run` for one package alone builds its libraries anew.
PROGRAMS := $(or $(CARGO_TARGET_DIR),target)
OPERATOR := -p flashjob-operator
FLASHER := -p flashjob-flasher
CLI := -p flashjob-cli
# The CAs the flasher's image gets, with which it knows public registries.
CA_CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
# Server-side, so that no second copy of a large CRD ends up in an annotation; forced, because these objects are ours also
# when another tool installed the original's. A server older than 1.23 does not know all fields of the CRD and refuses
# them: there, say APPLY='kubectl apply --validate=false'.
APPLY ?= $(KUBECTL) apply --server-side --force-conflicts
# A flasher that nobody named is not built and pushed by anybody, so only one that was named goes into the Deployment.
INSTALLER = IMG='$(IMG)' FLASHER_IMG='$(if $(findstring file,$(origin FLASHER_IMG)),,$(FLASHER_IMG))' hack/build-installer.sh
EDGE_INSTALLER = IMG='$(IMG)' hack/build-installer.sh --edge
DELETE = $(KUBECTL) delete --ignore-not-found=$(ignore-not-found)

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make [target] [VARIABLE=value]" } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables\n'
	@printf '  %-16s %s\n' IMG '$(IMG)' FLASHER_IMG '$(FLASHER_IMG)' CONTAINER_TOOL '$(CONTAINER_TOOL)' KUBECTL '$(KUBECTL)' TIMEOUT '$(TIMEOUT)'

##@ Development

.PHONY: build
build: ## Build operator, flasher and command line: target/release/flashjob-operator, flashjob-flasher, kubectl-flashjob
	@cargo build --release $(OPERATOR) $(FLASHER) $(CLI)

# Where cli-install puts the command line; kubectl finds it there when it is on the PATH.
BIN ?= $(HOME)/.local/bin

.PHONY: cli-install
cli-install: ## Build kubectl-flashjob and put it into BIN, so that `kubectl flashjob` works
	@cargo build --release --locked $(CLI)
	@hack/cli-install.sh $(PROGRAMS)/release/kubectl-flashjob '$(BIN)'

.PHONY: cli-package
cli-package: ## Pack kubectl-flashjob for TARGET and write target/krew.yaml for krew
	@cargo build --release --locked $(CLI) --target $(TARGET)
	@TARGET='$(TARGET)' hack/cli-package.sh $(PROGRAMS)/$(TARGET)/release/kubectl-flashjob

# More threads than cores: most of the tests wait for something most of the time.
.PHONY: test
test: ## Run all tests against a real API server and registry (had the first time, see assets)
	@KUBEBUILDER_ASSETS=$$(ASSETS=node hack/assets.sh); export KUBEBUILDER_ASSETS; \
	DOCKER_REGISTRY=$$(hack/registry.sh); export DOCKER_REGISTRY; \
	MBEDTLS=$$(hack/mbedtls.sh); export MBEDTLS; \
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-6} cargo test --workspace --locked --all-features

# The schedules that were thought out are tests of the cluster suite; all others come from seeds.
.PHONY: chaos
chaos: ## Break everything around the operator, boards have the last word (ARGS='stale --seed 7' plays one again)
	@KUBEBUILDER_ASSETS=$$(ASSETS=node hack/assets.sh); export KUBEBUILDER_ASSETS; \
	DOCKER_REGISTRY=$$(hack/registry.sh); export DOCKER_REGISTRY; \
	$(if $(ARGS),,cargo test --locked --all-features $(OPERATOR) --test cluster -- \
	  attempts:: crash:: deletion:: leftovers:: lease:: locks:: objects:: outages:: rollout::;) \
	cargo build --release --locked --workspace --all-features --bins --test chaos; \
	cargo test --release --locked --workspace --all-features --test chaos -- $(or $(ARGS),--full)

# How many boards the demo has, how many times faster than in the field they live, and whether it stays up at the end.
DEMO_DEVICES ?= 20
DEMO_SPEED ?= 20
DEMO_KEEP ?=

.PHONY: demo
demo: ## Flash simulated boards with the real operator and flasher (DEMO_DEVICES, DEMO_SPEED, DEMO_KEEP=1)
	@KUBEBUILDER_ASSETS=$$(hack/assets.sh); export KUBEBUILDER_ASSETS; \
	DOCKER_REGISTRY=$$(hack/registry.sh); export DOCKER_REGISTRY; \
	cargo build --locked $(OPERATOR) $(FLASHER) $(CLI) -p flashjob-sim; \
	$(PROGRAMS)/debug/flashjob-sim demo --devices $(DEMO_DEVICES) --speed $(DEMO_SPEED) $(if $(DEMO_KEEP),--keep)

# How many devices the fleet has, and whose agent they run: ours or flotta.
FLEET_DEVICES ?= 1000
FLEET_LIKE ?= ours

.PHONY: fleet
fleet: ## Run simulated Linux devices against a control plane and operator on this machine (FLEET_DEVICES, FLEET_LIKE=flotta)
	@KUBEBUILDER_ASSETS=$$(hack/assets.sh); export KUBEBUILDER_ASSETS; \
	cargo build --release --locked $(OPERATOR) $(CLI) -p flashjob-sim; \
	$(PROGRAMS)/release/flashjob-sim fleet --devices $(FLEET_DEVICES) --like $(FLEET_LIKE) $(ARGS)

.PHONY: bench
bench: ## Measure a rollout and a transfer against their floors (tables, and target/bench/fleet.json)
	@KUBEBUILDER_ASSETS=$$(hack/assets.sh); export KUBEBUILDER_ASSETS; \
	cargo bench --locked $(OPERATOR) --bench fleet -- $(ARGS)
	@cargo bench --locked -p flashjob-plan --bench decide
	@DOCKER_REGISTRY=$$(hack/registry.sh); export DOCKER_REGISTRY; \
	cargo bench --locked -p flashjob-flasher --bench serve

.PHONY: bench-boards
bench-boards: ## Measure 500 simulated boards through operator and flasher (ARGS="--devices 500 --parallel 50 --speed 20")
	@KUBEBUILDER_ASSETS=$$(hack/assets.sh); export KUBEBUILDER_ASSETS; \
	DOCKER_REGISTRY=$$(hack/registry.sh); export DOCKER_REGISTRY; \
	cargo build --release --locked $(OPERATOR) $(FLASHER) -p flashjob-sim; \
	$(PROGRAMS)/release/flashjob-sim scale $(ARGS)

.PHONY: bench-edge
bench-edge: ## Measure registrations and requests of edge devices against their floors (table, and target/bench/edge.json)
	@KUBEBUILDER_ASSETS=$$(hack/assets.sh); export KUBEBUILDER_ASSETS; \
	cargo bench --locked $(OPERATOR) --bench edge -- $(ARGS)

.PHONY: e2e
e2e: ## Flash simulated boards through real Pods on a real node, as root on Debian (or on the cluster of E2E_KUBECONFIG)
	@hack/e2e.sh

.PHONY: lint
lint: ## Check format, lints, docs, dependencies, scripts and generated files
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check licenses bans sources; \
	else echo 'lint: cargo-deny is not installed, licences and sources of dependencies were not checked'; fi
	@if command -v shellcheck >/dev/null; then shellcheck hack/*.sh .ci/run; \
	else echo 'lint: shellcheck is not installed, scripts were not checked'; fi
	@hack/check-generated.sh

.PHONY: fmt
fmt: ## Format the code
	@cargo fmt --all

.PHONY: assets
assets: ## Find or build what tests run against, print its folder: etcd, kube-apiserver, kube-controller-manager, a node
	@ASSETS=node hack/assets.sh

.PHONY: manifests
manifests: ## Generate the CRDs and the installers dist/install.yaml and dist/install-edge.yaml
	@for crd in $(CRD) $(EDGE_CRDS); do \
	  name=$${crd##*_}; \
	  cargo run --quiet $(OPERATOR) -- crd $${name%.yaml} >$$crd.new || { rm -f $$crd.new; exit 1; }; \
	  mv $$crd.new $$crd; \
	  echo "wrote $$crd"; \
	done
	@IMG= FLASHER_IMG= hack/build-installer.sh dist/install.yaml
	@IMG= hack/build-installer.sh --edge dist/install-edge.yaml

.PHONY: run
run: ## Run the operator here, against the cluster of your kubeconfig (ARGS="--log-format json ...")
	@cargo run $(OPERATOR) -- run $(ARGS)

##@ Image

.PHONY: docker-build
docker-build: ## Build the images IMG and FLASHER_IMG from static binaries, with CONTAINER_TOOL docker, podman or buildah
	@case '$(TARGET)' in *-linux-*) ;; *) \
	  echo 'The images hold Linux programs, and $(TARGET) is not Linux: set TARGET to a Linux target.' >&2; exit 1;; esac
	@[[ -s '$(CA_CERTIFICATES)' ]] || { \
	  echo 'The flasher needs CA certificates for HTTPS registries, and $(CA_CERTIFICATES) is not there: install' \
	    'ca-certificates, or set CA_CERTIFICATES to a PEM file with the CAs you trust.' >&2; exit 1; }
	@# With --target the flags are for the program only and not for build scripts, which could not run with them.
	@RUSTFLAGS='-C target-feature=+crt-static' CARGO_TARGET_DIR=target \
	  cargo build --release --locked $(OPERATOR) $(FLASHER) --target $(TARGET)
	@rm -rf target/image
	@install -D target/$(TARGET)/release/flashjob-operator target/image/manager
	@install -D target/$(TARGET)/release/flashjob-flasher target/image/flasher/flashjob-flasher
	@install -D -m 644 '$(CA_CERTIFICATES)' target/image/flasher/etc/ssl/certs/ca-certificates.crt
	@install -d -m 1777 target/image/flasher/tmp
	@$(CONTAINER_TOOL) build -t $(IMG) .
	@$(CONTAINER_TOOL) build --target flasher -t $(FLASHER_IMG) .

.PHONY: docker-push
docker-push: ## Push the images IMG and FLASHER_IMG
	@$(CONTAINER_TOOL) push $(IMG)
	@$(CONTAINER_TOOL) push $(FLASHER_IMG)

##@ Cluster

.PHONY: install
install: $(CRD) ## Install the CRD
	@$(APPLY) -f $(CRD)

.PHONY: uninstall
uninstall: $(CRD) ## Delete all FlashJobs, then the CRD
	@KUBECTL='$(KUBECTL)' TIMEOUT='$(TIMEOUT)' hack/delete-flashjobs.sh
	@$(DELETE) -f $(CRD)

.PHONY: deploy
deploy: $(CRD) ## Install CRD, RBAC and the operator with the image IMG; FLASHER_IMG is for jobs that name none
	@$(INSTALLER) | $(APPLY) -f -

.PHONY: undeploy
undeploy: $(CRD) ## Delete all FlashJobs, then the operator, its RBAC, namespace and CRD
	@KUBECTL='$(KUBECTL)' TIMEOUT='$(TIMEOUT)' hack/delete-flashjobs.sh
	@hack/build-installer.sh | $(DELETE) -f -

.PHONY: build-installer
build-installer: $(CRD) ## Write dist/install.yaml and dist/install-edge.yaml with the image IMG and, if it is given, FLASHER_IMG
	@$(INSTALLER) dist/install.yaml
	@$(EDGE_INSTALLER) dist/install-edge.yaml

# The CRD is in git. It is not made here, so that these targets need no Rust.
$(CRD):
	@echo '$(CRD) is not there: run make manifests.' >&2; exit 1

##@ Edge

.PHONY: deploy-edge
deploy-edge: ## Install the Edge system: its CRDs, RBAC and process, with the image IMG
	@$(EDGE_INSTALLER) | $(APPLY) -f -

# Whoever deletes an EdgeDevice has the device remove all it runs, and without the CA no device is known any more. So these
# stay, and it takes a word of its own to delete them.
.PHONY: undeploy-edge
undeploy-edge: ## Delete the process of the Edge system and its RBAC; devices, CRDs and the CA stay
	@hack/build-installer.sh --edge --removable | $(DELETE) -f -
	@echo 'Left: the EdgeDevices, whose devices run on, the CRDs, and namespace flotta with the CA. To remove these too: make' \
	  'deploy-edge; $(KUBECTL) delete edgedevices -A --all; when the devices have disconnected, which has them remove what they' \
	  'run, $(KUBECTL) delete -f dist/install-edge.yaml.'

# Where get-certs writes, as the original's does.
CERTS ?= /tmp

.PHONY: get-certs
get-certs: ## Write what a device registers with to CERTS (/tmp): ca.pem, cert.pem, key.pem
	@KUBECTL='$(KUBECTL)' hack/get-certs.sh '$(CERTS)'
