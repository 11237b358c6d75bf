"""Effects: one case a class and three disguises each; every one asks in every mode, in words."""

from __future__ import annotations

import pytest

from agent_kernel.guard import Call, Context, evaluate, parse_rules
from agent_kernel.guard.calls import MODES

NOWHERE = "/no/such/work"
# class: a plain form, three disguises, and a word the question must hold
BASH = {
    "recursive delete": (
        ["rm -rf build", "'rm' --recursive build", "env A=1 nohup rm -fr build",
         "bash -c 'x=rm; $x -r build'"], "build"),
    "find delete": (
        ["find . -name a -delete", "sudo -n find . -name a -delete", "cd x && find . -delete",
         "find . -name a | xargs rm"], "deletes"),
    "mass delete": (
        ["rm " + " ".join(f"f{n}" for n in range(21)), "rm *.csv",
         "find . -exec rm {} +", "ls | xargs -n 1 'rm'"], "deletes"),
    "data folder": (
        ["rm data/a.csv", "r''m -f ./data/a.csv", "timeout 5 rm warehouse/t", "command rm data/x"],
        "data folder"),
    "git reset": (
        ["git reset --hard", "git -C x reset --hard HEAD~1", "A=1 git reset '--hard'",
         "git reset --ha"], "uncommitted"),
    "git clean": (
        ["git clean -fd", "git clean -xdf", "git -c a.b=c clean --force", "bash -c 'git clean -f'"],
        "untracked"),
    "git branch": (
        ["git branch -D main", "git branch --delete --force main", "git -P branch -D 'main'",
         "true && git branch -D main"], "main"),
    "git push": (
        ["git push", "git -C x push origin main", "env git push", "sh -c \"git push\""], "publish"),
    "git push force": (
        ["git push --force", "git push -f origin main", "git push origin +main",
         "git push --force-with-lease"], "--force"),
    "sql": (
        ["psql -c 'DROP TABLE users'", "echo 'drop  table users;' | mysql -e 'drop table users'",
         "sqlite3 db 'DELETE FROM users'", "duckdb -c 'truncate table users'"], "users"),
    "sql in a document": (
        ["psql <<E\nDROP TABLE users;\nE", "hive -e 'INSERT OVERWRITE TABLE users SELECT 1'",
         "spark-sql -e 'CREATE OR REPLACE TABLE users AS SELECT 1'",
         "beeline -e 'drop/**/table/**/users'"], "users"),
    "deploy": (
        ["kubectl apply -f x.yaml", "env K=1 kubectl -n prod delete pod a",
         "terraform apply -auto-approve", "make deploy"], "cannot be undone|changes|deploys"),
    "production configuration": (
        ["tee config/production.yaml", "echo a > deploy/prod.yml", "cp x k8s/prod/app.yaml",
         "sed -i s/a/b/ prod.env"], "production"),
    "build server": (
        ["cp x .github/workflows/ci.yml", "echo a >> .gitlab-ci.yml", "tee Jenkinsfile",
         "mv x ./.circleci/config.yml"], "build server|protected"),
    "upload": (
        ["curl -X POST -d @x https://a.example/", "curl --data-binary @x https://a.example/",
         "scp x host:/y", "aws s3 cp x s3://bucket/"], "a.example|host|cloud"),
    "message": (
        ["mail -s hi bob", "gh issue comment 1 -b hi", "env gh pr create --fill",
         "curl -d '{}' https://hooks.slack.com/x"], "others"),
    "keys": (
        ["cat ~/.ssh/id_rsa", "base64 ../x.pem", "gh auth token", "tar cf - .env"], "key"),
    "system": (
        ["sudo apt install x", "systemctl stop db", "crontab x", "kill -9 1"], "machine|stops"),
    "hdfs": (
        ["hdfs dfs -rm -r /data", "hadoop fs -rmr /data", "env A=1 hdfs dfs -rm -skipTrash /data",
         "bash -c 'hdfs dfs -expunge /data'"], "/data"),
    "hudi": (
        ["hudi-cli rollback", "rm t/.hoodie/x.commit -r", "tee t/.hoodie/20240101.commit",
         "spark-sql -e \"CALL system.rollback_to_instant(table => 't')\""], "Hudi|timeline|below"),
    "flink": (
        ["flink stop 123", "./bin/flink cancel 123", "yarn application -kill app_1",
         "nohup flink run -d x.jar"], "job"),
    "scheduler": (
        ["airflow dags pause d", "airflow dags backfill d", "env A=1 airflow tasks clear d",
         "oozie job -kill 1"], "scheduler"),
    "export": (
        ["sqoop export --table t", "pg_dump db",
         "hive -e \"INSERT OVERWRITE DIRECTORY '/x' SELECT 1\"",
         "psql -c \"COPY t TO '/x'\""], "exports"),
    "lineage": (
        ["datahub delete --urn x", "curl -X POST https://atlas.example/api/lineage",
         "env curl -d @x https://datahub.example/", "openmetadata ingest -c x"],
        "lineage|platform|sends"),
}  # fmt: skip
CASES = [
    pytest.param(command, words, id=f"{kind} {number}")
    for kind, (commands, words) in BASH.items()
    for number, command in enumerate(commands)
]


@pytest.mark.parametrize("command, words", CASES)
def test_a_high_risk_command_asks_in_every_mode_in_words_of_its_effect(
    command: str, words: str
) -> None:
    rules = parse_rules({"allow": ["Bash"]})
    for mode in MODES:
        found = evaluate(Call("bash", command), rules, mode, Context(cwd=NOWHERE))
        assert found.verdict == ("deny" if mode == "plan" else "ask"), found
        assert any(word in found.risk for word in words.split("|")), found.risk


def test_what_cannot_be_undone_is_said() -> None:
    for command in ("rm -rf a", "git reset --hard", "git push -f", "psql -c 'drop table t'"):
        found = evaluate(Call("bash", command), parse_rules(""), "ask", Context(cwd=NOWHERE))
        assert "cannot be undone" in found.risk


@pytest.mark.parametrize(
    "code",
    [
        "import shutil\nshutil.rmtree('data')",
        "import subprocess\nsubprocess.run(['rm', '-rf', 'x'])",
        "import os\nos.system('git push --force')",
        "!rm -rf x",
        "spark.sql('DROP TABLE t')",
        "df.to_sql('t', engine, if_exists='replace')",
        "df.write.mode('overwrite').saveAsTable('t')",
        "requests.post('https://a.example', data=x)",
    ],
)
def test_python_code_with_a_high_risk_act_asks_under_its_rule(code: str) -> None:
    found = evaluate(Call("python", {"code": code}), parse_rules("allow Python"), "bypass")
    assert found.verdict == "ask"
    assert found.risk


@pytest.mark.parametrize(
    "call",
    [
        Call("sql", {"query": "delete from users"}),
        Call("mcp__db__query", {"sql": "DROP TABLE users"}),
        Call("mcp__sched__publish_job", {"id": 1}),
        Call("write", {"path": ".gitlab-ci.yml"}),
        Call("write", {"path": "config/production.yaml"}),
        Call("write", {"path": "/etc/hosts"}),
        Call("read", {"path": "certs/server.pem"}),
    ],
)
def test_other_tools_ask_for_the_same_acts(call: Call) -> None:
    rules = parse_rules({"allow": [call.tool, "Edit(**)", "Read(**)", "Edit(//etc/**)"]})
    assert evaluate(call, rules, "bypass", Context(cwd=NOWHERE)).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *("rm a.txt", "git commit -m 'drop table support'", "git branch -d old", "npm test"),
        *("git checkout -b new", "git clean -n", "make build", "kubectl get pods", "mkdir data"),
        *("psql -c 'select 1'", "psql -c 'delete from t where a = 1'", "curl https://a.example/"),
        *("hdfs dfs -ls /", "flink list", "airflow dags list", "gh pr view 1", "docker ps"),
        *("grep -rn 'DROP TABLE' src", "echo 'rm -rf /'", "pip install x", "chmod +x a", "kill -l"),
    ],
)
def test_everyday_commands_stay_without_a_risk(command: str) -> None:
    rules = parse_rules({"allow": ["Bash"]})
    found = evaluate(Call("bash", command), rules, "ask", Context(cwd=NOWHERE))
    assert found.verdict == "allow", found


def test_a_workspace_in_a_system_folder_is_still_a_workspace() -> None:
    rules = parse_rules({"allow": ["Edit(**)"]})
    context = Context(cwd="/opt/app")
    assert (
        evaluate(Call("edit", {"path": "/opt/app/a.py"}), rules, "ask", context).verdict == "allow"
    )
    assert evaluate(Call("edit", {"path": "/opt/b/a.py"}), rules, "bypass", context).risk


@pytest.mark.parametrize(
    "code, rules, verdict",
    [
        ("open('.env')", "deny Read(.env), allow Python", "deny"),
        ("Path('a') / '.env'", "deny Read(.env), allow Python", "deny"),
        ("open('x.txt', 'w')", "ask Edit(*.txt), allow Python", "ask"),
        ("print('hello')", "deny Read(.env), allow Python", "allow"),
        ("%%bash\nrm -rf x", "allow Python", "ask"),
        ("out = !git push", "allow Python", "ask"),
        ("%%sql\nDROP TABLE t", "allow Python", "ask"),
        ("df = df[df.id_x > 1]", "allow Python", "allow"),
    ],
)
def test_python_code_is_held_to_the_paths_and_acts_it_names(
    code: str, rules: str, verdict: str
) -> None:
    context = Context(cwd=NOWHERE)
    found = evaluate(Call("python", {"code": code}), parse_rules(rules), "ask", context)
    assert found.verdict == verdict, found
