// A loop on franz-go that copies one topic: franz SOURCE TARGET TOPIC REMOTE GROUP CODEC.
//
// Each record keeps its partition, key, value, headers and timestamp. An offset is committed after the target has
// acknowledged each record before it, once a second and at SIGTERM.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// positions holds the next offset of each partition behind the acknowledged records.
type positions struct {
	sync.Mutex
	next map[int32]kgo.EpochOffset
}

func (p *positions) commit(ctx context.Context, source *kgo.Client, topic string) {
	p.Lock()
	found := p.next
	p.next = map[int32]kgo.EpochOffset{}
	p.Unlock()
	if len(found) > 0 {
		source.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: found}, nil)
	}
}

func client(brokers string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(brokers, ",")...))...)
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func main() {
	topic, remote := os.Args[3], os.Args[4]
	source := client(os.Args[1],
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(os.Args[5]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxBytes(50<<20),
		kgo.FetchMaxPartitionBytes(4<<20))
	target := client(os.Args[2],
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(codecs[os.Args[6]]),
		kgo.MaxBufferedRecords(1_000_000),
		kgo.MaxBufferedBytes(64<<20))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	acknowledged := positions{next: map[int32]kgo.EpochOffset{}}
	go func() {
		for range time.Tick(time.Second) {
			acknowledged.commit(ctx, source, topic)
		}
	}()
	check := func(_ *kgo.Record, err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for ctx.Err() == nil {
		fetches := source.PollFetches(ctx)
		fetches.EachPartition(func(part kgo.FetchTopicPartition) {
			for number, record := range part.Records {
				promise := check
				if number == len(part.Records)-1 {
					// The promises of a partition are kept in order: this record's is the last of the fetch.
					next := kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
					promise = func(record *kgo.Record, err error) {
						check(record, err)
						acknowledged.Lock()
						acknowledged.next[part.Partition] = next
						acknowledged.Unlock()
					}
				}
				record.Topic = remote
				target.Produce(context.Background(), record, promise)
			}
		})
		for _, failed := range fetches.Errors() {
			if ctx.Err() == nil {
				log.Printf("%s-%d: %v", failed.Topic, failed.Partition, failed.Err)
			}
		}
	}
	if err := target.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	acknowledged.commit(context.Background(), source, topic)
	source.Close()
}
