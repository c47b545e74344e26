# The image of examples/jobset.yaml and serve.yaml, with the versions of requirements.lock:
#   docker build -t my-registry/flax-transformer:0.1.0 .                          # for CPUs
#   docker build -t my-registry/flax-transformer:0.1.0 --build-arg EXTRA=cuda13 .  # for NVIDIA GPUs; tpu, serve, or several: serve,cuda13
# To use it:
#   docker run --rm -i -v "$PWD/runs:/data/runs" my-registry/flax-transformer:0.1.0 translate runs/mine < lines
# It runs as user 1000, who must be able to write to the folders that are mounted.

FROM python:3.11-slim-bookworm AS build
ARG EXTRA=""
WORKDIR /src
RUN python -m venv --without-pip /opt/venv
COPY pyproject.toml hatch_build.py README.md LICENSE requirements.lock ./
COPY configs configs
COPY flax_transformer flax_transformer
RUN pip --python /opt/venv/bin/python install --no-cache-dir --constraint requirements.lock ".${EXTRA:+[$EXTRA]}"

FROM python:3.11-slim-bookworm
COPY --from=build /opt/venv /opt/venv
# The last: training on CPUs is faster with huge pages.
ENV PATH="/opt/venv/bin:$PATH" PYTHONUNBUFFERED=1 GLIBC_TUNABLES=glibc.malloc.hugetlb=1
RUN useradd --create-home --uid 1000 transformer \
    && install --directory --owner transformer /data
USER 1000
WORKDIR /data
ENTRYPOINT ["flax-transformer"]
CMD ["--help"]
