i = 5 OR i IS NULL
NOT (i IN (1, 5, NULL))
i NOT IN (5)
i BETWEEN -10 AND 5 AND NOT i = 0
-1 <= i
i <=> NULL
NOT i <=> 5
i > 2.5
i = 5.0
i < 1e1
l = 9223372036854775807L
i = '5'
i IN ('5', '9')
i = CAST('5' AS INT)
x > 'NaN'
x = CAST('NaN' AS DOUBLE)
x >= 0.1
x < 0
f = CAST(0.5 AS FLOAT)
f < 0.5D
x != double('Infinity')
m = 1.5
m > 10.649
m IN (0.01, 1.50BD)
d >= '2024-02-29'
d < DATE '2024-03-01'
d = TIMESTAMP '2024-02-29 00:00:00'
d > TIMESTAMP '2024-02-29 07:30:00'
ts >= '2025-12-10T10:00:00Z' AND ts < '2025-12-11T00:00:00Z'
ts = TIMESTAMP '2025-12-10 10:00:00'
ts < DATE '1970-01-01'
ts > '2024-02-29 09:30:00+02:00'
ts >= '2025'
n <= '2024-03-01 07:59'
n = TIMESTAMP_NTZ '1970-01-01 00:00:00'
n < TIMESTAMP '2024-01-01 00:00:00Z'
s LIKE 'ab%'
s NOT LIKE 'ab%'
s LIKE 'a%c'
s NOT LIKE 'a%c'
s LIKE 'abc'
s LIKE '%b'
s LIKE 'a_c%'
s LIKE 'a\'b\\\\\\%\\_'
s LIKE ''
startswith(s, 'ab')
s = 'it''s' OR s = 'b'
s = 'a\'b\\%_'
s > '\u0061'
s >= '日本'
s < "b"
b
NOT b
b = TRUE
b IS NOT TRUE
b IS FALSE OR i > 0
!b AND i > 0
z = X'61'
z >= X'FF'
z < X''
i > 0 AND (s = 'a' OR d IS NULL) AND NOT (b AND l < 0)
NULL
TRUE
i = NULL
i % 2 = 0 AND i > 0
length(s) > 2 OR i = 5
CASE WHEN b AND i > 0 THEN TRUE END
i = l
y > 100
w = 0.001
w > 12345678901234567890.12
d IS DISTINCT FROM DATE '1970-01-01'
i IN (1, 2, 2.5)
l > 9007199254740992.0D
i > 99999999999
m = '1.50'
l IN (9007199254740993, 1e0)
l NOT IN (9007199254740993, 5D)
i IN (1, 5S, 9Y, 10L)
w = CAST(1 AS DECIMAL(38,0))
w > CAST(1 AS DECIMAL(38,0))
w = CAST(1.4 AS DECIMAL(10,1))
f = CAST('1.00000017881393432617187499' AS FLOAT)
f = 1.00000017881393432617187499F
f = 16777217
f IN (16777217)
x IN ('NaN', 0)
ts IN ('2025-12-10', DATE'2025-12-10')
ts IN (TIMESTAMP '2025-12-10 10:00:00', NULL)
d IN ('2024-02-29', '1970-01-01')
s = '${y}'
s IN ('${y}', 'a')
i BETWEEN 1 AND 5 OR NOT i BETWEEN 0 AND 9 AND b
NOT i = 5 AND b OR s LIKE 'a%' AND NOT s LIKE 'ab%'
! (i = 5)
i IS NOT NULL AND NOT (s IS NULL OR b IS NULL)
