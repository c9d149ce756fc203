# syntax=docker/dockerfile:1
# For NVIDIA GPUs: docker build -t isentropic . and docs/containers.md. CUDA comes with torch; the host needs its driver.
FROM python:3.12-slim-bookworm

# torch.compile and Triton build kernels; git is for the commit in status.json
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 isentropic

ENV PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/scratch/huggingface \
    PROJECT_ROOT=/scratch

# a lock names everything; resolving again, pip refuses what some ask for with an extra
COPY requirements/cuda.lock /build/cuda.lock
RUN python -m pip install --no-deps --require-hashes --requirement /build/cuda.lock

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN python -m pip install --no-deps --no-build-isolation /build && rm -r /build \
    && mkdir /scratch && chown 1000 /scratch

USER 1000
WORKDIR /scratch
ENTRYPOINT ["isentropic"]
CMD ["--help"]
