# Sourced by bash before the command of the bash tool (BASH_ENV): when the shell ends it says on
# its pipe where it stands, so that the next call starts there. The command's text stays unchanged.
unset BASH_ENV
__agent_kernel_mark=$AGENT_KERNEL_MARK
unset AGENT_KERNEL_MARK
trap 'if [[ -p /dev/stdout ]]; then builtin printf "\n%s" "$__agent_kernel_mark"; builtin pwd -P
elif [[ -p /dev/stderr ]]; then { builtin printf "\n%s" "$__agent_kernel_mark"; builtin pwd -P; } >&2; fi' EXIT
