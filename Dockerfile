# The image of durable_adk's workers: the package, and nothing of anybody's agents.
# Mount those, or build on it:  FROM durable-adk  /  COPY my_agent /agents/my_agent

FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml deploy/requirements.lock README.md LICENSE ./
COPY durable_adk durable_adk
COPY examples/capital_agent examples/capital_agent
# All extras, and what builds the package, in the versions of requirements.lock and no other files.
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
    && /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim
COPY --from=build /venv /venv
# Nobody's files are written in the container but those of /data, for stores that are files.
RUN useradd --uid 10001 --create-home durable \
    && install -d -o durable -g durable -m 700 /data
ENV PATH=/venv/bin:$PATH \
    DURABLE_ADK_DATA_DIR=/data \
    DURABLE_ADK_LOG=json
WORKDIR /agents
USER durable
# As process 1, so that SIGTERM reaches it: the worker hands over what it runs, and ends.
ENTRYPOINT ["durable-adk"]
CMD ["--help"]
