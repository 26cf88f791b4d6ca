create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, 'k'||(i*7919%10007), i*0.5 from n;
create index tb on t(b);
select count(*), sum(c) from t where b like 'k1%';
select b, count(*) from t group by b having count(*)>2 order by b limit 20;
update t set c=c+1 where a%3=0;
delete from t where a%7=0;
select sum(length(x)) from (select group_concat(b) x from t group by a/100);
