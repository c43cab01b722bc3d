# An image with Brigade, libtorch and a compiler: the command, and everything to build programs with.
#   docker build -t brigade .                      for CPUs
#   docker build -t brigade --build-arg CUDA=1 .   for NVIDIA GPUs (run it with --gpus all)
#   docker run --rm -v "$PWD:/work" brigade brigade new my_project
ARG CUDA=0

FROM debian:12 AS source
WORKDIR /src
COPY . .

# For CPUs: libtorch as `./dev` fetches it.
FROM source AS built-0
RUN ./dev package && mkdir /torch && mv .deps/site /torch/

# For GPUs: the whole wheel of PyTorch with NVIDIA's libraries (CUDA 13).
FROM source AS built-1
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv \
    && python3 -m venv /venv && /venv/bin/pip install --no-cache-dir torch==2.11.0 \
    && mkdir -p /torch/site && mv /venv/lib/python3.11/site-packages/torch /venv/lib/python3.11/site-packages/nvidia /torch/site/ \
    && BRIGADE_TORCH_DIR=/torch/site/torch BRIGADE_PRESET=gpu ./dev package

FROM built-${CUDA} AS built

FROM debian:12
COPY --from=built /torch /opt/brigade
RUN --mount=type=bind,from=built,source=/src/build,target=/build \
    apt-get update && apt-get install -y /build/*/brigade.deb && rm -rf /var/lib/apt/lists/*
WORKDIR /work
CMD ["brigade", "devices"]
