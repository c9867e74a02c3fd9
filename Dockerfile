# docker build -t jbpool . && docker run --rm -v "$PWD/runs:/jbpool/runs" jbpool
# CPU only; docs/gpu.md is about GPUs. The container clusters a generated graph and writes runs/.../report.html.
FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /jbpool
# The environment first: it is built again only if the versions change.
COPY requirements.lock ./
RUN python -m venv .venv && .venv/bin/python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.lock
COPY . .
RUN make env
CMD ["make", "run"]
