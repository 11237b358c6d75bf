"""Columns: every column of every table, once: name, dtype, unit, meaning.

May not hold anything else; schema.py reads it, and docs, help and empty tables come from there.
"""

from __future__ import annotations

from agent_kernel.frames.columns_agents import SUBAGENTS
from agent_kernel.frames.columns_samples import SAMPLES

# A line: name, dtype (s text i whole f fraction b yes/no t UTC L texts c category), unit, meaning.
TABLES: dict[str, str] = {
    "sessions": """
session_id s - the harness's own id
harness c - which reader read it
version_first s - harness version of the first line that says one
version_last s - harness version of the last line that says one
cwd s - folder the session worked in, as first recorded
branch s - git branch as first recorded
started t - first time in the session
ended t - last time in the session
title s - the last title given to it
turns i - turns opened by a person, a queue, a notification, a command or an API
steps i - calls of the main agent
calls i - calls of all agents
tools i - tool calls of all agents
errors i - tool calls that failed
interrupts i - turns a person stopped
compactions i - committed compactions that hid history
micro i - compactions that only cleared old tool results
subagents i - agents other than main
issues i - findings in its files
input i tokens uncached input, all agents
output_recorded i tokens output as logged, all agents
cache_write_5m i tokens written to the 5-minute cache
cache_write_1h i tokens written to the 1-hour cache
cache_read i tokens read from the cache
usd_recorded f dollars at list price, output as logged
usd_best f dollars with estimated output where the log is not final
usd_low f dollars with the low output estimate
usd_high f dollars with the high output estimate
usd_rewound f dollars of calls on branches that were rewound
context_peak i tokens largest context of a main call
window i tokens context window of the model of the peak
forked_from s - session it was forked from
files L - paths it was read from
""",
    "records": """
session_id s - session
record_id i - file_id << 40 | byte offset (seq in our own logs)
file_id i - number of the file in this load
path c - file
offset i bytes where the line begins, unpacked
bytes i bytes length of the line
seq i - event seq, or line number in the session
type c - line or event type
subtype c - its subtype
uuid s - its id
parent s - id of its parent
logical_parent s - id it follows across a boundary
time t - its time
agent_id s - main or an agent's id
sidechain b - outside the main conversation
epoch i - compactions before it
turn i - turn it belongs to
chain c - why it is in or out: official sibling preserved repaired history rewound sidechain ...
active b - the model sees it now
copy_of i - record_id of the same line in an earlier file
superseded b - written again later with the same id
parse_status c - ok unknown_type bad_json torn not_object huge
hidden_from_model b - never sent
""",
    "calls": """
session_id s - session
call_id s - message id, or what stands for it
request_id s - request id as logged
agent_id s - main or an agent's id
agent_kind c - main subagent acompact fork title compaction
turn i - turn
step i - number of the call within its agent and turn
epoch i - compactions before it
model c - model as logged
provider c - who serves it
time_first t - first line of the response
time_last t - last line of the response
ttft f seconds to the first token
seconds f seconds the request took
lines i - lines that state it
files i - files it was seen in
nested b - seen only inside progress records
input i tokens uncached input
output_recorded i tokens output as logged
output_est i tokens output by visible characters
output_low i tokens low estimate
output_high i tokens high estimate
output_quality c - final partial placeholder missing
thinking_tokens i tokens of thinking, when stated
cache_write_5m i tokens written to the 5-minute cache
cache_write_1h i tokens written to the 1-hour cache
cache_read i tokens read from the cache
write_split c - recorded assumed_5m mismatch
context i tokens input + both writes + read
delta i tokens context minus that of the previous call of this agent
stop_reason c - why the response ended
status c - ok error interrupted failed_attempt
rewound b - paid, but not on the branch that went on
web_searches i - server-side searches
speed c - speed tier as logged
service_tier c - service tier as logged
geo c - inference geography as logged
cache_event c - cold compaction model_switch hit expired prefix_change
rewritten i tokens expected in the cache and not read from it
rewrite_usd f dollars the rewritten tokens cost more than a read
price_id s - row of prices
usd_input f dollars uncached input
usd_output f dollars output as logged
usd_cache_write f dollars both cache writes
usd_cache_read f dollars cache reads
usd_server f dollars server tools
usd_recorded f dollars all of it as logged
usd_best f dollars with estimated output where not final
usd_source f dollars the log itself states
record_id i - first line that states it
""",
    "blocks": """
session_id s - session
record_id i - line it stands in
block i - position within the message
call_id s - call that wrote it
agent_id s - main or an agent's id
role c - user or assistant
kind c - text thinking redacted_thinking tool_use tool_result image document attachment ...
source c - system prompt assistant tool_result attachment summary command
chars i code points of its text
tokens i tokens estimated from chars
tool_use_id s - tool call it asks or answers
sha s - 16 hex digits of the BLAKE2b of its text
duplicate_of i - record_id of the first block with this text
epoch_in i - compactions before it
epoch_out i - compaction that hid it
cleared_by s - micro compaction that cleared it
width i pixels of an image
height i pixels of an image
media_type c - of an image or document
""",
    "tools": """
session_id s - session
tool_use_id s - id of the tool call
call_id s - model call that asked for it
turn i - turn
step i - step
agent_id s - main or an agent's id
name c - tool
input s JSON as the model gave it
path s - file or URL it names
command s - shell command
started t - when it was asked for or started
ended t - when its result was logged
seconds f seconds as stated, else between the two
is_error b - the result is an error
is_error_explicit b - the log says so itself
error_kind c - kind of failure
interrupted b - stopped by a person
answered b - a result is in the log
result_chars i code points of the result
result_tokens i tokens of the result, estimated
spilled_bytes i bytes kept in a file beside the log
image b - the result holds an image
batch s - call_id shared by parallel calls
batch_size i - tool calls of that call
tier c - path text symbol concept: how it looks for things
permission c - allow deny ask
reread_of s - earlier read of the same path
carried_calls i - later calls that carried the result
carry_usd f dollars the result cost after it was read
dropped_by s - compaction that hid the result
""",
    "turns": """
session_id s - session
turn i - number, from 1
text_record i - record_id of the text that opened it
origin c - human queued notification api command
started t - when it was opened
ended t - last line of it
wall f seconds between the two
model f seconds waiting for the model
tool f seconds tools ran
human_idle f seconds since the turn before ended
steps i - calls of the main agent
calls i - calls of all agents
tools i - tool calls
errors i - tool calls that failed
input i tokens uncached input
output_recorded i tokens output as logged
cache_write_5m i tokens written to the 5-minute cache
cache_write_1h i tokens written to the 1-hour cache
cache_read i tokens read from the cache
usd_recorded f dollars output as logged
usd_best f dollars with estimated output where not final
end c - completed interrupted error max_steps budget prompt_too_long refused open
rewound b - not on the branch that went on
""",
    "steps": """
session_id s - session
turn i - turn
step i - step within the turn
call_id s - the model call
started t - first line of the response
model f seconds waiting for the model
tool f seconds of its tool batch
context i tokens the model read
system i tokens of system and tools, estimated
prompts i tokens of prompts, estimated
assistant i tokens of answers, estimated
tool_results i tokens of tool results, estimated
attachments i tokens of attachments, estimated
summary i tokens of a compaction summary, estimated
added i tokens context grew by
added_explained i tokens of what the log shows was added
unexplained_tokens i tokens added minus explained
cache_event c - as in calls
digest s - digest of the request, when recorded
exact b - the surface is known, not rebuilt
""",
    "compactions": """
session_id s - session
compaction_id s - id
kind c - auto manual micro prune precompute server silent
trigger s - what caused it
layer c - which layer of the ladder
status c - committed failed skipped undone
hidden i events it hid
requests_after i - main calls until the next one or the end
seq i - where
epoch i - number of the epoch it began
time t - when
pre_meta i tokens before, as the harness says
pre_wire i tokens context of the last main call before
post_meta i tokens after, as the harness says
post_wire i tokens context of the first main call after
dropped i tokens dropped so far, as the harness says
summary_chars i code points of the summary
summary_tokens i tokens of the summary, estimated
kept L - ids kept in full
cleared L - tool calls whose results were cleared
ratio f - post_wire / pre_wire
call_id s - the call that wrote the summary
call_usd f dollars of that call
call_cache c - warm cold unknown
call_estimated b - the dollars are an estimate
rewrite_tokens i tokens written again by the first call after
rewrite_usd f dollars more than a read
rereads i - paths read before and again within 20 operations
reread_tokens i tokens of those reads
seconds f seconds it took
payback_calls f calls until it paid for itself
paid_back b - it did before the next one
fur f - share of facts used later that summary or kept text holds
flags L - detectors that fired
""",
    "compaction_items": """
session_id s - session
compaction_id s - compaction
record_id i - line of the block
block i - position within the message
fate c - kept summarised cleared dropped reinjected
tokens i tokens estimated
cites L - seqs the summary cites for it
matched c - exact quoted none
""",
    "facts": """
session_id s - session
compaction_id s - compaction
kind c - path identifier hash url number error command constraint
value s - the fact
first_seq i - first time it was seen before
last_seq i - last time it was seen before
n i - times it was seen before
in_summary b - the summary holds it
in_kept b - a kept message holds it
used_after b - used within 40 operations after, before seen again
lost b - used after, and neither in summary nor kept
recovered_call s - tool call that brought it back
recovery_tokens i tokens of that result
sessions_with_it i - sessions of the load that hold it
""",
    "files": """
session_id s - session
path s - file
reads i - reads
writes i - writes
edits i - edits
read_tokens i tokens of the reads
rereads i - reads after the first
first_seq i - first operation
last_seq i - last operation
edited_after_read b - changed after it was read
carry_usd f dollars its reads cost after they were read
""",
    "subagents": SUBAGENTS,
    "tasks": """
session_id s - session
task_id s - its id
kind c - bash agent cell
label s - what it is
agent_id s - agent that started it
tool_use_id s - tool call that started it
created t - when it was created
started t - when it ran
ended t - when it ended
status c - running completed failed stopped lost
exit_code i - of a process
notices i - notifications of its end; exactly one is right
notice_lag f seconds from its end to the notification
""",
    "permissions": """
session_id s - session
tool_use_id s - tool call
name c - tool
rule s - rule that decided
verdict c - allow deny
by c - rule person policy hook mode
asked b - a person was asked
waited f seconds for the answer
reason s - as recorded
would_pass s - rule that would allow it
time t - when it was decided, or asked while it waits
mode c - permission mode in force, where the log says it
turn i - turn
step i - step
agent_id s - agent that asked for it
began t - when the call began; missing = it never ran
""",
    "samples": SAMPLES,
    "prices": """
price_id s - key
model c - model
provider c - who serves it
input f dollars/M uncached input
output f dollars/M output
cache_write_5m f dollars/M 5-minute cache write
cache_write_1h f dollars/M 1-hour cache write
cache_read f dollars/M cache read
tier_above i tokens context above which it holds
web_search f dollars/1000 server-side searches
valid_from t - first day
source s - price table and version
calls i - calls it priced
tokens i tokens it priced
tokens_unpriced i tokens without a price
""",
    "issues": """
session_id s - session, when known
code c - what
severity c - info loss wrong
path s - file
offset i bytes where, unpacked
bytes i bytes of the line
record_id i - line
message s - names the thing and what to do
sample s - first 80 code points, escaped
""",
    "reconcile": """
step i - order
rule s - what is counted how
lines c - all first max
nested b - progress records counted
scope c - session global
write_price c - flat_5m split
output c - recorded estimated
calls i - calls
input i tokens uncached input
output_tokens i tokens output
cache_write_5m i tokens written to the 5-minute cache
cache_write_1h i tokens written to the 1-hour cache
cache_read i tokens read from the cache
usd f dollars at list price
delta_usd f dollars more than the row before
equals s - counters known to give this number
""",
}
