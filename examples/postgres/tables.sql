CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88))
INSERT INTO pgbench_branches SELECT n, 0 FROM generate_series(1, 1) n
ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)
CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84))
INSERT INTO pgbench_tellers SELECT n, (n - 1) / 10 + 1, 0 FROM generate_series(1, 10) n
ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)
CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84))
INSERT INTO pgbench_accounts SELECT n, (n - 1) / 100000 + 1, 0, '' FROM generate_series(1, 100000) n
ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))
SET default_statistics_target = 334
VACUUM ANALYZE
