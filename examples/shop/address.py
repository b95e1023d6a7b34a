"""Where a component answers: reads `holdfast ps --json`, prints HOST:PORT of the component named first."""

import json
import sys

for row in json.load(sys.stdin)["services"]:
    if row["component"] == sys.argv[1] and row["ports"]:
        sys.stdout.write(row["ports"][0].split("→")[0] + "\n")
        break
else:
    sys.exit(f"{sys.argv[1]} has no published port")
