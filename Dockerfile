# docker build -t jbpool . && docker run --rm -v "$PWD/runs:/jbpool/runs" jbpool
# CPU only; docs/install.md has GPUs. The container clusters a generated graph and writes runs/.../report.html.
FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /jbpool
COPY . .
RUN PIP_NO_CACHE_DIR=1 make env
CMD ["make", "run"]
