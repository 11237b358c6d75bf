"""Logs: twelve job logs as they come, each with the line that is its first error."""

from __future__ import annotations

LOGS: dict[str, tuple[str, str, str]] = {
    # name: (kind, text of the first error's line, log)
    "flink_checkpoint": (
        "flink",
        "Checkpoint 812 of job 4f expired before completing",
        """2026-11-30 02:00:00,001 INFO  org.apache.flink.runtime.jobmaster.JobMaster - Starting execution of job orders
2026-11-30 02:10:00,120 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator - Triggering checkpoint 812 (type=CHECKPOINT) for job 4f
2026-11-30 02:15:11,000 WARN  org.apache.flink.runtime.taskmanager.Task - Backpressure of source orders is HIGH
2026-11-30 02:20:00,121 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator - Checkpoint 812 of job 4f expired before completing.
2026-11-30 02:20:00,140 ERROR org.apache.flink.runtime.jobmaster.JobMaster - Trying to recover from a global failure.
org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold.
\tat org.apache.flink.runtime.checkpoint.CheckpointFailureManager.handle(CheckpointFailureManager.java:90)
2026-11-30 02:20:01,000 INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph - Job orders switched from RUNNING to RESTARTING
""",
    ),
    "flink_hudi_conflict": (
        "flink",
        "HoodieWriteConflictException",
        """2026-11-30 01:00:00,001 INFO  org.apache.flink.runtime.taskmanager.Task - Source: orders switched from DEPLOYING to RUNNING
2026-11-30 01:00:09,001 INFO  org.apache.flink.metrics - errors=0 failed=0
2026-11-30 01:03:00,500 ERROR org.apache.hudi.sink.StreamWriteOperatorCoordinator - org.apache.hudi.exception.HoodieWriteConflictException: Cannot resolve conflicts for overlapping writes
\tat org.apache.hudi.client.transaction.ConflictResolution.resolve(ConflictResolution.java:44)
2026-11-30 01:03:00,600 INFO  org.apache.flink.runtime.jobmaster.JobMaster - Shutting down
""",
    ),
    "spark_memory": (
        "spark",
        "ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: Container killed",
        """26/11/30 03:00:00 INFO SparkContext: Running Spark version 3.5.1
26/11/30 03:00:05 INFO DAGScheduler: Submitting 200 missing tasks from ResultStage 4
26/11/30 03:09:41 ERROR TaskSetManager: ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: Container killed by YARN for exceeding memory limits. exit code 137
26/11/30 03:09:41 WARN TaskSetManager: Lost task 17.0 in stage 4.0 (TID 817) (host7 executor 7)
26/11/30 03:12:00 ERROR TaskSetManager: Task 17 in stage 4.0 failed 4 times; aborting job
26/11/30 03:12:00 INFO DAGScheduler: Job 2 failed: collect at Job.scala:88, took 720 s
org.apache.spark.SparkException: Job aborted due to stage failure: Task 17 in stage 4.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2700)
""",
    ),
    "spark_cast": (
        "spark",
        "java.lang.NumberFormatException: For input string",
        """26/11/30 03:00:00 INFO SparkContext: Submitted application: export
26/11/30 03:01:10 ERROR Executor: Exception in task 3.0 in stage 1.0 (TID 11): java.lang.NumberFormatException: For input string: "n/a"
\tat java.lang.Integer.parseInt(Integer.java:652)
\tat Export$.cents(Export.scala:14)
26/11/30 03:01:12 ERROR TaskSetManager: Task 3 in stage 1.0 failed 4 times; aborting job
26/11/30 03:01:12 INFO SparkContext: Shutting down
org.apache.spark.SparkException: Job aborted due to stage failure
Caused by: java.lang.NumberFormatException: For input string: "n/a"
\tat Export$.cents(Export.scala:14)
""",
    ),
    "hive_semantic": (
        "hive",
        "SemanticException [Error 10004]",
        """2026-11-30T04:00:00,000 INFO [main] org.apache.hadoop.hive.ql.Driver: Compiling command(queryId=q1)
FAILED: SemanticException [Error 10004]: Line 3:8 Invalid table alias or column reference 'amonut': (possible column names are: amount, dt)
2026-11-30T04:00:01,000 INFO [main] org.apache.hadoop.hive.ql.Driver: Completed compiling command
""",
    ),
    "hive_return_code": (
        "hive",
        "Diagnostic Messages for this Task: java.io.IOException: No space left on device",
        """2026-11-30T04:10:00 INFO hive.ql.exec.Task: Starting Job = job_17_0001, Tracking URL = http://rm/17
2026-11-30T04:11:30 ERROR hive.ql.exec.Task: Diagnostic Messages for this Task: java.io.IOException: No space left on device
2026-11-30T04:11:31 ERROR hive.ql.Driver: FAILED: Execution Error, return code 2 from org.apache.hadoop.hive.ql.exec.mr.MapRedTask
""",
    ),
    "kerberos_ticket": (
        "kerberos",
        "GSSException: No valid credentials provided",
        """2026-11-30 05:00:00 INFO Client: Submitted application to ResourceManager rm1, 0 errors
2026-11-30 05:00:02 ERROR Client: javax.security.sasl.SaslException: GSS initiate failed [Caused by GSSException: No valid credentials provided (Mechanism level: Failed to find any Kerberos tgt)]
\tat com.sun.security.sasl.gsskerb.GssKrb5Client.evaluateChallenge(GssKrb5Client.java:211)
""",
    ),
    "kerberos_skew": (
        "kerberos",
        "Clock skew too great",
        """kinit: keytab /etc/security/etl.keytab for etl@CORP
2026-11-30 05:10:00 ERROR krb5.Login: javax.security.auth.login.LoginException: Clock skew too great (37)
2026-11-30 05:10:01 ERROR Main: could not be executed, exit code 1
""",
    ),
    "maven": (
        "maven",
        "Could not resolve dependencies for project com.shop:etl:jar:1.4",
        """[INFO] Scanning for projects...
[INFO] --- maven-resources-plugin:3.3.1:resources (default-resources) @ etl ---
[WARNING] 'dependencies.dependency.version' for org.x:y is deprecated, no errors so far
[ERROR] Failed to execute goal on project etl: Could not resolve dependencies for project com.shop:etl:jar:1.4: Could not find artifact com.shop:core:jar:2.0 in central
[INFO] BUILD FAILURE
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
""",
    ),
    "npm": (
        "npm",
        "npm ERR! code ERESOLVE",
        """> shop-ui@1.0.0 build
npm warn deprecated har-validator@5.1.5: this library is no longer supported
npm ERR! code ERESOLVE
npm ERR! ERESOLVE unable to resolve dependency tree
npm ERR! Found: react@19.0.0
npm ERR! A complete log of this run can be found in: ~/.npm/_logs/x.log
""",
    ),
    "python_etl": (
        "spark",
        "KeyError: 'user_id'",
        """26/11/30 06:00:00 INFO SparkContext: Running Spark version 3.5.1
loading 12 files, 0 errors
26/11/30 06:00:31 ERROR PythonRunner: Python worker failed: KeyError: 'user_id'
Traceback (most recent call last):
  File "/app/job.py", line 41, in enrich
KeyError: 'user_id'
26/11/30 06:00:32 INFO SparkContext: Shutting down
""",
    ),
    "flink_quiet_sink": (
        "flink",
        "java.net.SocketTimeoutException: Read timed out",
        """2026-11-30 07:00:00,000 INFO  org.apache.flink.runtime.taskmanager.Task - Sink: risk switched from DEPLOYING to RUNNING
2026-11-30 07:00:05,000 INFO  org.apache.flink.connector.jdbc - using ExceptionTranslator default, error_reporting on
2026-11-30 07:04:00,000 WARN  org.apache.flink.connector.jdbc - JDBC executeBatch, retry times = 0
java.net.SocketTimeoutException: Read timed out
\tat java.net.SocketInputStream.socketRead0(Native Method)
2026-11-30 07:05:00,000 ERROR org.apache.flink.runtime.taskmanager.Task - Sink: risk switched from RUNNING to FAILED
java.io.IOException: Writing records to JDBC failed.
Caused by: java.net.SocketTimeoutException: Read timed out
\tat java.net.SocketInputStream.socketRead0(Native Method)
""",
    ),
}
