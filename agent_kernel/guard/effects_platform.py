"""Effects of platforms: clusters, deployments and schedulers that others share.

It reads programs by name and words; it may not decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_FOREVER = "; it cannot be undone"

# Program, what its words must hold, the effect.
_ACTS: Final = tuple(
    (re.compile(names), re.compile(words), effect)
    for names, words, effect in (
        (
            r"hdfs|hadoop",
            r"(?:dfs|fs) .*-(?:rm|rmr|rmdir|expunge)\b|-delete\b|-format\b",
            "deletes files of the cluster" + _FOREVER,
        ),
        (
            r"hdfs|hadoop",
            (
                r"(?:dfs|fs) .*-(?:mv|put -f|copyFromLocal -f|setrep|chmod|chown|"
                r"truncate|appendToFile|moveFromLocal)\b"
            ),
            "changes files of the cluster",
        ),
        (
            r"hdfs|hadoop|sqoop",
            r"(?:dfs|fs) .*-(?:get|copyToLocal|getmerge)\b|^export\b|distcp",
            "exports data from the cluster",
        ),
        (
            r"hive|beeline|spark-sql|impala-shell|presto|trino",
            r"--?(?:f|file)\b",
            "runs an SQL file on the shared cluster",
        ),
        (
            r"hudi(?:-cli)?(?:\.sh)?|hudi-cli-bundle\w*",
            (
                r"rollback|savepoint|clean|delete|"
                r"compaction|repair|archive|cluster|downgrade|upgrade"
            ),
            "changes a Hudi table's files or timeline" + _FOREVER,
        ),
        (
            r"flink|sql-client(?:\.sh)?",
            r"\b(?:cancel|stop|savepoint|run|run-application)\b",
            "starts, stops or restarts a Flink job",
        ),
        (r"yarn", r"-(?:kill|stop|changeQueue|movetoqueue)\b", "stops or moves a cluster job"),
        (r"mapred", r"-kill\b", "stops a cluster job"),
        (
            r"airflow",
            r"\b(?:pause|unpause|delete|trigger|backfill|clear|run|reset|set|import)\b",
            "changes what the scheduler runs",
        ),
        (
            r"oozie|azkaban|dolphinscheduler\w*|dsctl|luigi\w*|prefect|dagster",
            r"kill|rerun|suspend|resume|submit|start|run|delete|deploy|pause|update|online|offline",
            "changes what the scheduler runs",
        ),
        (
            r"datahub|atlas\w*|openmetadata|metadata|marquez",
            r"delete|put|ingest|update|rollback|import",
            "changes the catalogue or its lineage",
        ),
        (
            r"mysqldump|pg_dump(?:all)?|mongodump|mongoexport|bcp|expdp|redis-dump",
            r"",
            "exports data of a database",
        ),
        (
            r"mongo(?:sh)?|redis-cli",
            r"drop|deleteMany|remove\(|flushall|flushdb|\bdel\b",
            "deletes data of a database" + _FOREVER,
        ),
        (r"dropdb|dropuser", r"", "drops a database or a user" + _FOREVER),
        (
            r"kafka-topics(?:\.sh)?|kafka-configs(?:\.sh)?|kafka-consumer-groups(?:\.sh)?",
            r"--(?:delete|alter|create|reset-offsets)",
            "changes the shared message queue",
        ),
        (
            r"kubectl|oc|k9s",
            (
                r"\b(?:apply|delete|create|replace|patch|edit|scale|rollout|drain|"
                r"cordon|set|exec|cp|annotate|label|taint|run|expose|autoscale)\b"
            ),
            "changes the cluster",
        ),
        (r"kubectl|oc", r"\bget\b.*\bsecrets?\b", "reads keys of the cluster"),
        (
            r"helm|helmfile",
            r"\b(?:install|upgrade|uninstall|delete|rollback|apply|sync|destroy)\b",
            "deploys to the cluster",
        ),
        (
            r"terraform|tofu|terragrunt|pulumi|cdk",
            r"\b(?:apply|destroy|import|taint|up|deploy|state)\b",
            "changes the infrastructure" + _FOREVER,
        ),
        (r"ansible(?:-playbook)?|salt|fab|cap", r"", "changes other machines"),
        (
            (
                r"serverless|sls|vercel|netlify|fly|flyctl|heroku|eb|gcloud|firebase|wrangler|railway|"
                r"surge|now|render"
            ),
            (
                r"\b(?:deploy\w*|promote|rollback|destroy|delete|create|update|scale|"
                r"restart|set|--prod|push|up|publish)\b|--prod"
            ),
            "deploys or changes a service",
        ),
        (
            r"aws",
            (
                r"\b(?:s3 (?:cp|mv|rm|sync|rb|mb)|s3api (?:put|delete)|\w[\w-]* (?:create|"
                r"delete|"
                r"put|update|terminate|run|start|stop|modify|send|publish|invoke|"
                r"deregister|remove)[\w-]*)"
            ),
            "changes or uploads to the cloud",
        ),
        (
            r"aws|gcloud|az",
            r"secret|print-access-token|get-login-password|keyvault|list-keys",
            "reads keys of the cloud",
        ),
        (
            r"gsutil|azcopy|rclone|s3cmd|mc|ossutil|coscli",
            r"\b(?:cp|mv|rm|rb|sync|rsync|del|copy|move|delete|put|purge)\b",
            "changes or uploads to the cloud",
        ),
        (
            r"az|doctl|linode-cli|hcloud",
            r"\b(?:create|delete|update|start|stop|restart|set|remove|up)\b",
            "changes the cloud",
        ),
        (
            r"make|npm|pnpm|yarn|just|rake|invoke|task|bash|sh",
            r"(?:^|[\s:./_-])(?:deploy|release|publish)(?:$|[\s:._-])",
            "deploys or publishes",
        ),
        (r"systemd-run|at|batch", r"", "schedules a command on the machine"),
        (
            r"jupyter|papermill",
            r"\bkernelspec (?:remove|install|uninstall)\b",
            "changes the kernels",
        ),
        (
            r"curl|wget|http|https",
            (
                r"(?:atlas|lineage|datahub|openmetadata|marquez|airflow|"
                r"dolphinscheduler|/jobs/).*(?:POST|PUT|PATCH|DELETE|-d|--data|--json)|"
                r"(?:POST|PUT|PATCH|DELETE|-d|--data|--json).*(?:atlas|lineage|datahub|openmetadata|"
                r"marquez|airflow|dolphinscheduler|/jobs/)"
            ),
            "changes a shared platform",
        ),
    )
)
_START: Final = re.compile(r"start-all|stop-all|stop-\w+|start-\w+|\w+-daemon(?:s)?")


def platform_effect(name: str, words: Sequence[str]) -> str:
    """What the program does to a shared platform, naming the object, or ''."""
    plain = name.removesuffix(".sh").removesuffix(".py")
    text = " ".join(words)
    if text in ("", "--help", "-h", "--version", "version", "help"):
        return ""
    for names, wanted, effect in _ACTS:
        if names.fullmatch(name) and wanted.search(text):
            return _named(effect, name, text)
    if _START.fullmatch(plain) and name.endswith(".sh"):
        return _named("starts or stops a shared service", name, text)
    return ""


def _named(effect: str, name: str, text: str) -> str:
    words, mark, rest = effect.partition("; ")
    return f"{words}: {f'{name} {text}'[:120]!r}{mark}{rest}"
