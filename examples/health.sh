#!/bin/sh
# How is this host? An example for mpirun --health: it looks at temperatures, at memory errors that
# were corrected, and at the pressure on memory and storage. Exit codes:
#   0  fine
#   1  suspect: no ranks come here while another host has room
#   2  leave: the ranks move to other hosts
# The first line of output is the reason. What a host does not have is not looked at.
#
#   mpirun --health 'HEALTH_LEAVE_CELSIUS=90 /path/to/health.sh' ...
#
# Thresholds, and their defaults:
#   HEALTH_SUSPECT_CELSIUS  85     the hottest sensor, in degrees
#   HEALTH_LEAVE_CELSIUS    95
#   HEALTH_SUSPECT_ERRORS   100    corrected memory errors since the host was started
#   HEALTH_LEAVE_ERRORS     10000
#   HEALTH_SUSPECT_MEMORY   20     percent of the last minute in which all processes wait for memory
#   HEALTH_LEAVE_MEMORY     none
#   HEALTH_SUSPECT_IO       60     the same for storage
#   HEALTH_LEAVE_IO         none
# HEALTH_SYS and HEALTH_PROC are the folders in place of /sys and /proc.
set -u
sys=${HEALTH_SYS:-/sys}
proc=${HEALTH_PROC:-/proc}
worst=0
reason=

# judge VALUE SUSPECT LEAVE TEXT: the worst finding counts, and of equal ones the first.
judge() {
    finding=0
    if [ "$2" != none ] && [ "$1" -ge "$2" ]; then finding=1; fi
    if [ "$3" != none ] && [ "$1" -ge "$3" ]; then finding=2; fi
    if [ "$finding" -gt "$worst" ]; then
        worst=$finding
        reason=$4
    fi
}

# whole TEXT: succeeds if the text is a whole number.
whole() {
    case $1 in '' | *[!0-9]*) return 1 ;; esac
}

# Sensors give thousandths of a degree. Some can't be read, and some are below zero.
hottest=0
sensor=
for file in "$sys"/class/hwmon/hwmon*/temp*_input "$sys"/class/thermal/thermal_zone*/temp; do
    value=$(cat "$file" 2>/dev/null) || continue
    whole "$value" || continue
    if [ "$value" -gt "$hottest" ]; then
        hottest=$value
        sensor=$file
    fi
done
degrees=$((hottest / 1000))
judge "$degrees" "${HEALTH_SUSPECT_CELSIUS:-85}" "${HEALTH_LEAVE_CELSIUS:-95}" \
    "$degrees degrees Celsius at $sensor"

errors=0
for file in "$sys"/devices/system/edac/mc/mc*/ce_count; do
    value=$(cat "$file" 2>/dev/null) || continue
    whole "$value" || continue
    errors=$((errors + value))
done
judge "$errors" "${HEALTH_SUSPECT_ERRORS:-100}" "${HEALTH_LEAVE_ERRORS:-10000}" \
    "$errors memory errors were corrected"

# pressure FILE: the percentage of the last minute in which all processes waited.
pressure() {
    value=$(sed -n 's/^full .*avg60=\([0-9]*\).*/\1/p' "$1" 2>/dev/null)
    whole "$value" || value=0
}

pressure "$proc/pressure/memory"
judge "$value" "${HEALTH_SUSPECT_MEMORY:-20}" "${HEALTH_LEAVE_MEMORY:-none}" \
    "all processes waited for memory in $value % of the last minute"
pressure "$proc/pressure/io"
judge "$value" "${HEALTH_SUSPECT_IO:-60}" "${HEALTH_LEAVE_IO:-none}" \
    "all processes waited for storage in $value % of the last minute"

echo "${reason:-fine}"
exit "$worst"
