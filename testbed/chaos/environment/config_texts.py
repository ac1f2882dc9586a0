"""The texts of a run's configurations, without names and numbers."""

LEVEL_SECONDS, LATENESS_SECONDS = (4, 12), 2  # of the masked stream
CONFIG = """\
fleet: {fleet}
mqtt: {{url: "{scheme}://127.0.0.1:{port}", username: {user}, password: {password}{ca}}}
keepers: {{{keepers}}}
agent:
  device: {device}
  state: var/{state}
  profile: {profile}
  outbox: {{policy: {policy}, persist: {persist}}}
streams:
  air:
    source: {air}
    window: {window}s
    privacy: {{epsilon: {epsilon}}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      pm25: {{low: 0, high: 1000, scale: log}}
    sketch: {{depth: 4, fanout: 4, k: 16, width: 16, rows: 1}}
  load:
    source: {load}
    window: {window}s
    privacy: {{epsilon: {epsilon}}}
    attributes:
      load1: {{low: 0, high: 16, scale: log}}
    sketch: {{depth: 4, fanout: 4, k: 16, width: 16, rows: 1}}
{masked_stream}collector: {{database: disk/collector.sqlite}}
"""
# Its release may have masks of thousands of intrusions, for which a small outbox has no room.
MASKED_STREAM = """\
  masked:
    source: {masked}
    window: {window}s
    privacy:
      epsilon: {epsilon}
      aggregation: blinded
      answers: [{answers}]
      lateness: {lateness}s
    attributes:
      load1: {{low: 0, high: 16, scale: log}}
    sketch: {{depth: 3, fanout: 4, k: 8, width: 8, rows: 1}}
"""
KEEPER_CONFIG = """\
fleet: {fleet}
name: {name}
mqtt: {{url: "mqtt://127.0.0.1:{port}", username: {user}, password: {password}}}
state: {state}
"""
SYSTEM = "{type: system, interval: 1s}"
LIVE = {"air": "{type: stdin}", "load": SYSTEM, "masked": SYSTEM}
OVER = {name: f"{{type: replay, path: no-{name}.csv}}" for name in LIVE}
COLUMNS = {"air": "time,temp,pm25\n", "load": "time,load1\n", "masked": "time,load1\n"}
