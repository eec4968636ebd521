# syntax=docker/dockerfile:1
# Both bases are given by their digests, which `make image` resolves and checks; there is no default to fall back to:
#   BUILD_IMAGE  python:3.13-slim-trixie@sha256:...
#   FINAL_IMAGE  gcr.io/distroless/python3-debian13:nonroot@sha256:...
# The two belong together: Debian 13's own Python is 3.13, and what is compiled in the first must run on the libc of the
# second. The second has neither shell nor package manager.
ARG BUILD_IMAGE
ARG FINAL_IMAGE

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m pip install --require-hashes -r requirements/build.lock \
    && python -m pip install --require-hashes --only-binary :all: --target /opt/konverge -r requirements/runtime.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY localcluster localcluster
COPY crds crds
COPY operator operator
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && python -m pip install --no-deps --no-index --target /opt/konverge /dist/*.whl \
    && rm -rf /opt/konverge/bin

FROM ${FINAL_IMAGE}
LABEL org.opencontainers.image.title="konverge" \
      org.opencontainers.image.description="A Kubernetes operator, and the framework that it is built with" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/konverge /opt/konverge
ENV PYTHONPATH=/opt/konverge PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/usr/bin/python3", "-m", "konverge"]
CMD ["run", "--leader-elect", "--log-format=json", "--probe-address=:8081"]
