//! An origin with streams: a model of DynamoDB in memory.

/// Tables, their streams, and what was asked.
#[derive(Debug, Default)]
pub(super) struct Origin {
    pub(super) streams: Vec<Stream>,
    /// Entries of a page of streams or shards.
    pub(super) page: usize,
    /// Records of a reply to `GetRecords`, and whether a reply that has as many is a full one.
    pub(super) records: usize,
    /// Iterators that were given before are expired.
    pub(super) expired: u64,
    /// The error to answer with, for operations of this name.
    pub(super) error: Option<(&'static str, u16, &'static str)>,
    /// Operations and how their iterators begin, in order.
    pub(super) asked: Vec<String>,
    given: u64,
    sequence: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) table: String,
    pub(super) label: u64,
    pub(super) status: &'static str,
    pub(super) shards: Vec<Shard>,
}

#[derive(Debug)]
pub(super) struct Shard {
    name: String,
    parent: Option<String>,
    closed: bool,
    /// Sequence number and item of each record.
    records: Vec<(u64, u32)>,
    /// Records before this one are lost.
    trimmed: u64,
    /// It is not listed yet.
    pub(super) hidden: bool,
}

impl Stream {
    fn arn(&self) -> String {
        format!("arn:{}/{}", self.table, self.label)
    }
}

impl Origin {
    pub(super) fn new() -> Self {
        Self { page: 100, records: 1_000, sequence: 1, ..Self::default() }
    }

    pub(super) fn create(&mut self, table: &str) {
        self.sequence += 1;
        let first = shard(format!("{table}-{}", self.sequence), None);
        let (table, label) = (table.to_owned(), self.sequence);
        self.streams.push(Stream { table, label, status: "ENABLED", shards: vec![first] });
    }

    pub(super) fn stream(&mut self, table: &str) -> &mut Stream {
        let mut streams = self.streams.iter_mut().rev();
        streams.find(|stream| stream.table == table).expect("a stream")
    }

    /// A write of an item, reported by one of the open shards.
    pub(super) fn write(&mut self, table: &str, item: u32) {
        self.sequence += 1;
        let sequence = self.sequence;
        let open = self.stream(table).shards.iter_mut().filter(|shard| !shard.closed);
        let mut open: Vec<_> = open.collect();
        let place = item as usize % open.len();
        open[place].records.push((sequence, item));
    }

    /// Closes the first open shard; `children` continue it.
    pub(super) fn split(&mut self, table: &str, children: usize, hidden: bool) {
        self.sequence += 1;
        let sequence = self.sequence;
        let stream = self.stream(table);
        let parent = stream.shards.iter_mut().find(|shard| !shard.closed).expect("an open shard");
        parent.closed = true;
        let parent = parent.name.clone();
        stream.shards.extend((0..children).map(|child| Shard {
            hidden,
            ..shard(format!("{table}-{sequence}-{child}"), Some(parent.clone()))
        }));
    }

    /// Loses all records so far.
    pub(super) fn trim(&mut self, table: &str) {
        self.sequence += 1;
        let sequence = self.sequence;
        for shard in &mut self.stream(table).shards {
            shard.trimmed = sequence;
            shard.records.clear();
        }
    }

    pub(super) fn disable(&mut self, table: &str) {
        let stream = self.stream(table);
        stream.status = "DISABLED";
        stream.shards.iter_mut().for_each(|shard| shard.closed = true);
    }

    /// Expires all iterators that were given.
    pub(super) fn expire(&mut self) {
        self.expired = self.given + 1;
    }

    /// Status and body of the reply to a call.
    pub(super) fn answer(&mut self, operation: &str, body: &str) -> (u16, String) {
        let member = |name: &str| {
            let (_, rest) = body.split_once(&format!("\"{name}\":\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let kind = member("ShardIteratorType").map(|kind| format!(" {kind}"));
        self.asked.push(format!("{operation}{}", kind.unwrap_or_default()));
        if let Some((of, status, error)) = self.error
            && of == operation
        {
            return failure(status, error);
        }
        match operation {
            "ListStreams" => self.list(member("ExclusiveStartStreamArn").as_ref()),
            "DescribeStream" => self
                .describe(&member("StreamArn").unwrap(), member("ExclusiveStartShardId").as_ref()),
            "GetShardIterator" => {
                let (arn, shard) = (member("StreamArn").unwrap(), member("ShardId").unwrap());
                let after = member("SequenceNumber").map(|number| number.parse().unwrap());
                self.iterator(&arn, &shard, &member("ShardIteratorType").unwrap(), after)
            }
            "GetRecords" => self.read(&member("ShardIterator").unwrap()),
            _ => panic!("{operation}"),
        }
    }

    fn list(&self, after: Option<&String>) -> (u16, String) {
        let start = self.streams.iter().position(|stream| Some(&stream.arn()) == after);
        let start = start.map_or(0, |at| at + 1);
        let end = (start + self.page).min(self.streams.len());
        let listed = self.streams[start..end].iter().map(|stream| {
            let Stream { table, label, .. } = stream;
            let arn = stream.arn();
            format!(r#"{{"StreamArn":"{arn}","TableName":"{table}","StreamLabel":"{label:06}"}}"#)
        });
        let listed = listed.collect::<Vec<_>>().join(",");
        let more = match end < self.streams.len() {
            true => format!(r#","LastEvaluatedStreamArn":"{}""#, self.streams[end - 1].arn()),
            false => String::new(),
        };
        (200, format!(r#"{{"Streams":[{listed}]{more}}}"#))
    }

    fn describe(&self, arn: &str, after: Option<&String>) -> (u16, String) {
        let Some(stream) = self.streams.iter().find(|stream| stream.arn() == arn) else {
            return failure(400, "ResourceNotFoundException");
        };
        let shown: Vec<&Shard> = stream.shards.iter().filter(|shard| !shard.hidden).collect();
        let start = shown.iter().position(|shard| Some(&shard.name) == after);
        let start = start.map_or(0, |at| at + 1);
        let end = (start + self.page).min(shown.len());
        let listed = shown[start..end].iter().map(|shard| {
            let name = &shard.name;
            let parent = shard.parent.as_ref();
            let parent = parent.map(|parent| format!(r#""ParentShardId":"{parent}","#));
            let ends = if shard.closed { r#""EndingSequenceNumber":"9""# } else { "" };
            let parent = parent.unwrap_or_default();
            format!(r#"{{"ShardId":"{name}",{parent}"SequenceNumberRange":{{{ends}}}}}"#)
        });
        let listed = listed.collect::<Vec<_>>().join(",");
        let more = match end < shown.len() {
            true => format!(r#","LastEvaluatedShardId":"{}""#, shown[end - 1].name),
            false => String::new(),
        };
        let status = stream.status;
        let about = format!(r#""StreamStatus":"{status}","Shards":[{listed}]{more}"#);
        (200, format!(r#"{{"StreamDescription":{{{about}}}}}"#))
    }

    fn iterator(
        &mut self,
        arn: &str,
        shard: &str,
        kind: &str,
        after: Option<u64>,
    ) -> (u16, String) {
        self.sequence += 1;
        let newest = self.sequence;
        let Some(found) = self.shard(arn, shard) else {
            return failure(400, "ResourceNotFoundException");
        };
        let from = match (kind, after) {
            ("LATEST", None) => newest,
            ("TRIM_HORIZON", None) => found.trimmed,
            ("AFTER_SEQUENCE_NUMBER", Some(after)) => after + 1,
            other => panic!("{other:?}"),
        };
        if from < found.trimmed {
            return failure(400, "TrimmedDataAccessException");
        }
        self.given += 1;
        (200, format!(r#"{{"ShardIterator":"{arn}|{shard}|{from}|{}"}}"#, self.given))
    }

    fn read(&mut self, iterator: &str) -> (u16, String) {
        let parts: Vec<&str> = iterator.split('|').collect();
        let [arn, shard, from, given] = parts[..] else { panic!("{iterator}") };
        let (from, given): (u64, u64) = (from.parse().unwrap(), given.parse().unwrap());
        if given < self.expired {
            return failure(400, "ExpiredIteratorException");
        }
        self.given += 1;
        let (next, records_max) = (self.given, self.records);
        let Some(found) = self.shard(arn, shard) else {
            return failure(400, "ResourceNotFoundException");
        };
        if from < found.trimmed {
            return failure(400, "TrimmedDataAccessException");
        }
        let due: Vec<_> = found.records.iter().filter(|(number, _)| *number >= from).collect();
        let records = due.iter().take(records_max).map(|(number, item)| {
            let keys = format!(r#"{{"id":{{"N":"{item}.0"}}}}"#);
            format!(r#"{{"dynamodb":{{"Keys":{keys},"SequenceNumber":"{number}"}}}}"#)
        });
        let records = records.collect::<Vec<_>>().join(",");
        let last = due.iter().take(records_max).next_back().map_or(from, |(number, _)| number + 1);
        let is_end = found.closed && due.len() <= records_max;
        let next = match is_end {
            true => String::new(),
            false => format!(r#","NextShardIterator":"{arn}|{shard}|{last}|{next}""#),
        };
        (200, format!(r#"{{"Records":[{records}]{next}}}"#))
    }

    fn shard(&mut self, arn: &str, name: &str) -> Option<&mut Shard> {
        let stream = self.streams.iter_mut().find(|stream| stream.arn() == arn)?;
        stream.shards.iter_mut().find(|shard| shard.name == name)
    }
}

fn shard(name: String, parent: Option<String>) -> Shard {
    Shard { name, parent, closed: false, records: Vec::new(), trimmed: 0, hidden: false }
}

fn failure(status: u16, error: &str) -> (u16, String) {
    (status, format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{error}","message":"m"}}"#))
}
