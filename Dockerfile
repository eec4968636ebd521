# syntax=docker/dockerfile:1
# Built in two stages: the first has pip and compilers, the second only Python and what the operator imports.
ARG PYTHON=3.13-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
RUN python -m venv /opt/konverge
COPY requirements/runtime.lock requirements/
RUN /opt/konverge/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/runtime.lock
RUN pip install --no-cache-dir --disable-pip-version-check "hatchling>=1.27"
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY localcluster localcluster
COPY crds crds
COPY operator operator
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/konverge/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
    && /opt/konverge/bin/pip uninstall -y pip

FROM python:${PYTHON}
RUN rm -rf /usr/local/lib/python3*/site-packages/pip*
COPY --from=build /opt/konverge /opt/konverge
ENV PATH=/opt/konverge/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["konverge"]
CMD ["run", "--leader-elect", "--log-format=json", "--metrics-address=:8080", "--probe-address=:8081"]
